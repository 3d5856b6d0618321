"""Two runs compared cell by cell, and the one place that says what blocks a merge. No I/O."""

from harness.compare.compare import compare
from harness.compare.gate import Gate, exit_code_of_check, exit_code_of_compare, judge_check, judge_compare

__all__ = ["Gate", "compare", "exit_code_of_check", "exit_code_of_compare", "judge_check", "judge_compare"]
