"""Statements of the paper, one file each."""
