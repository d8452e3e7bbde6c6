"""Nine agents: three seeds at each of three entropy targets.   python examples/03_population.py [steps]"""

import sys

from sbeed import RunSpec, train_population

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
spec = RunSpec("jax:pendulum", steps=steps, fields={"hidden": (64, 64), "warmup": 1_000})
rows = train_population(spec, seeds=3, entropy_target=[-2.0, -1.0, 0.0])
for row in rows:
    if row["final"]:
        print(f"entropy target {row['entropy_target']:+.0f}, seed {row['seed']}: {row['return']:.0f}")
