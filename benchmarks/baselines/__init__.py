"""Our TRPO, DDPG and SAC beside those that everybody uses: final returns, the peers' hyper-parameters for both."""
