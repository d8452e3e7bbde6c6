"""SBEED: Smoothed Bellman Error Embedding (Dai et al., ICML 2018)."""
