"""SAC: soft actor-critic with twin critics and an adapted temperature (Haarnoja et al., 2018)."""
