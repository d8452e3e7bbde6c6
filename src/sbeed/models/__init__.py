"""What is learned: networks and policies, as Equinox modules."""
