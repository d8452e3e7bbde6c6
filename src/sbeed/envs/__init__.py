"""Environments: finite MDPs."""
