"""What is enough to see an agent work."""

# One size for all: what takes the time here is compiling.
TINY = {
    "hidden": (4,),
    "batch_size": 4,
    "replay_capacity": 100,
    "warmup": 16,
    "steps_per_iteration": 8,
    "updates_per_iteration": 1,
}
# What the (V, pi) form of the paper needs besides.
PAPER = {"features": 4, "k": 2, "segment_length": 2, "pi_batch_size": 4}
