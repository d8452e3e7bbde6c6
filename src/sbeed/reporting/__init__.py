"""What runs left behind, read, summed up and drawn: no jax."""
