"""TRPO: Trust Region Policy Optimization (Schulman et al., ICML 2015), and the natural policy gradient."""
