"""Our TRPO, DDPG and SAC beside widely used ones: final returns, with the peers' hyper-parameters for both."""
