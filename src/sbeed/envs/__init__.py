"""Environments: finite MDPs, pure JAX tasks, and an adapter for Gymnasium's."""
