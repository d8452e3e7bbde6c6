"""Read, summarise and draw the results of runs, without jax."""
