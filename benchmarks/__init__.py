"""How fast we are, and beside whom: `make bench`. docs/benchmarks.md says what each number is."""
