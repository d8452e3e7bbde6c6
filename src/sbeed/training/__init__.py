"""From environments to curves: collecting, updating in lockstep, evaluating, runs and what they leave behind."""
