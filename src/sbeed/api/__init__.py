"""The public agents: `Algorithm` is what they share, `agents` has their classes, `settings` the types of keywords."""

from sbeed.api.agents import DDPG, PCL, SAC, SBEED, TRPO, DualAC
from sbeed.api.algorithm import Algorithm, Score

__all__ = ["DDPG", "PCL", "SAC", "SBEED", "TRPO", "Algorithm", "DualAC", "Score"]
