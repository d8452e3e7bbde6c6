"""The bridge to Stable-Baselines3: its callbacks, its environments, its names. Nothing here imports it or torch."""
