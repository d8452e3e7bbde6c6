"""Stored transitions: the replay and datasets."""
