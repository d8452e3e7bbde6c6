"""DDPG: deep deterministic policy gradient (Lillicrap et al., ICLR 2016)."""
