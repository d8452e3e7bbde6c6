"""What lies on the disk: tensors, models, datasets, checkpoints and a run's directory. Hardly any of it needs jax."""
