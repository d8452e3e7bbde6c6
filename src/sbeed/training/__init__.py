"""Learning in lockstep: the trainer, its loop, and a run in a directory of its own."""
