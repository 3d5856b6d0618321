"""Reports of runs and comparisons: one pure aggregation each, one module a format. They render, and never judge."""
