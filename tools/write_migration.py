# ruff: noqa: E501  the lines of what is written
"""Write docs/migration.md: Stable-Baselines3's names beside ours, from the table that also makes the messages.

python -m tools.write_migration; a test compares the file with what this writes.
"""

from pathlib import Path
from typing import get_type_hints

from sbeed.agents.configs import FORMS
from sbeed.agents.peers import PEERS, answer, ours_for

FILE = Path(__file__).parent.parent / "docs" / "migration.md"
HEAD = """# From Stable-Baselines3

Written by `tools/write_migration.py` from `src/sbeed/agents/peers.py`, which also makes the answers to these names in Python and on the command line.

```python
import gymnasium
from sbeed import SBEED  # as well: SAC, DDPG, TRPO, PCL, DualAC

agent = SBEED("MlpPolicy", "Pendulum-v1", seed=None)  # or an environment, a vector, a VecEnv, a function that makes one
agent.learn(10_000)  # counts environment steps exactly, and goes on when it is called again
action, state = agent.predict(gymnasium.make("Pendulum-v1").reset()[0], deterministic=True)
agent.save("pendulum")  # a directory of named tensors, no pickle
agent = SBEED.load("pendulum")
```

| Stable-Baselines3 | here |
|---|---|
| `model.learn(steps, callback, log_interval)` | the same; `progress_bar=True`; `out=DIR` for rows, checkpoints and the final model ([callbacks](callbacks.md)) |
| `CheckpointCallback`, `EvalCallback`, ... | the same objects work; `learn(out=DIR, evaluate_every=, checkpoint_every=)` does it without them |
| `model.predict`, `evaluate_policy(model, env)` | the same; `agent.evaluate(episodes)` needs no environment |
| `model.save`, `Model.load(path, env)` | the same; a run's directory loads too |
| `make_vec_env`, `VecEnv` | accepted; `gymnasium.make_vec` too (processes: `vector_kwargs={"context": "spawn"}`, as a fork of a process with JAX may hang) |
| `VecNormalize`, `NormalizeObservation`, `NormalizeReward` | leave them out: `normalize_observations=True`, `normalize_rewards=True`; their statistics are the agent's and are saved with it |
| `Monitor` | works, and is not needed |
| `get_parameters`, `set_parameters`, `get_env` | the same; names are paths such as `Q/net/net/weights/0` |
| `logger.configure`, `set_logger` | `agent.set_logger(Logger("log.jsonl"))`, or Stable-Baselines3's own |

## Settings
A name in the first column is answered by the sentence in the second, as a keyword in Python; as a flag, by the third if it differs.

| name | in Python | `sbeed train` |
|---|---|---|
"""


def content() -> str:
    """The text of the page."""
    fields = dict.fromkeys(name for forms in FORMS.values() for form in forms.values() for name in get_type_hints(form))
    lines = []
    for name in PEERS:
        ours = [", ".join(f"`{one}`" for one in ours_for(name, fields, flag=flag)) for flag in (False, True)]
        python, flag = (some or answer(name, fields, flag=flag) for some, flag in zip(ours, (False, True)))
        lines.append(f"| `{name}` | {python} | {'' if flag == python else flag} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    FILE.write_text(content())
