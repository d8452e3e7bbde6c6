"""From environments to curves: collecting, populations, evaluation."""
