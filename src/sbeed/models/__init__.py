"""Learned models: networks and policies, as Equinox modules."""
