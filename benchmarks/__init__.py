"""How fast we are, and beside which other systems: `make bench`. docs/benchmarks.md says what each number is."""
