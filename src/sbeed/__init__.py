"""SBEED: convergent reinforcement learning with nonlinear function approximation."""

__version__ = "0.1.0"
