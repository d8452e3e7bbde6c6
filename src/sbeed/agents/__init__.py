"""One folder, one algorithm."""
