"""Read and write files: tensors, models, datasets, checkpoints and a run's directory. Few modules need jax."""
