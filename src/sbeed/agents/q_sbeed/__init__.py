"""SBEED in Q-coordinates: Q = V + lam log pi, so that the paper's loss needs no log-density of a replayed action."""
