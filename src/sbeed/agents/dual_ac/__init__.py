"""Dual-AC: Boosting the Actor with Dual Critic (Dai et al., ICLR 2018)."""
