"""Performance claims, as ratios that are measured in one run: ``make bench``. Never a time limit inside a test."""
