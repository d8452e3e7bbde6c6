"""Where transitions wait: the replay."""
