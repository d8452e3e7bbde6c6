"""What is enough to see an agent work."""

# One size for all: what takes the time here is compiling.
TINY = {
    "hidden": (4,),
    "batch_size": 4,
    "replay_capacity": 100,
    "warmup": 16,
    "steps_per_iteration": 8,
    "updates_per_iteration": 1,
    "pi_updates_per_iteration": None,
}
