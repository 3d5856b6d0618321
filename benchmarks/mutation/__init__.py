"""Mutation of the subject's routing code: how many single edits that weaken a guard the harness sees."""
