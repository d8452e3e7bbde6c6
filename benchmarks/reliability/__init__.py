"""What may happen to a run, done to it many times over: `python -m benchmarks.reliability`.

Every threat is a module: NAME, MUST (what must hold), COUNT (trials of a whole run), LIMIT (seconds for one, or None),
ABOUT, and `trials(seeds)`, which gives a `Trial` for each seed. The seed alone says what is done.
"""
