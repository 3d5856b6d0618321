"""The vLLM tree under test: from the words of the command line to a folder on disk and the identity of what is in it.

In: ``--subject``, ``--aiter``, ``--env``, ``--packages`` and a cache folder, all as values. Out: ``Located``.
Must not import vLLM or AITER, read the environment, or write anywhere but into the cache folder.
"""

from harness.subjects.identity import tree_digest, version_of
from harness.subjects.options import parse_env, parse_packages
from harness.subjects.progress import Progress, progress_on
from harness.subjects.resolve import Located, resolve

__all__ = [
    "Located",
    "Progress",
    "parse_env",
    "parse_packages",
    "progress_on",
    "resolve",
    "tree_digest",
    "version_of",
]
