"""The paper-sized update by our learner, and the matrix products that it is held against.

ours_update SETTING ARRAYS: leaves the networks it starts from and its data in the file ARRAYS, for the peer to take.
"""

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks.processes import Answer, serve
from benchmarks.systems import programs
from sbeed.agents.sbeed.agent import update
from sbeed.agents.sbeed.learner import Learner
from sbeed.data.replay import Replay


def main() -> None:
    setting = json.loads(sys.argv[1])
    count = setting["updates"]
    # A policy of one feature: its log pi costs next to nothing, for it is not what is compared here.
    config = programs.paper(
        features=1,
        trace=1.0,
        batch_size=setting["batch"],
        segment_length=setting["segment"],
        **{name: setting[name] for name in ("k", "eta", "kappa", "lam", "gamma", "slow_rate")},
        V_step_size=setting["step_size"],
        dual_step_size=setting["step_size"],
        step_decay=0.0,
    )
    replay = programs.walk(setting["replay"])
    start = programs.learner(config, replay)
    hand_over(Path(sys.argv[2]), start, replay)
    program = programs.of_V_and_dual(count)
    keys = iter(jax.random.split(jax.random.key(1), 1000))

    def updates() -> Answer:
        return {"seconds": programs.seconds(program, config, start, replay, next(keys)) / count}

    @jax.jit
    def at(state: Learner, starts: jax.Array) -> tuple[Learner, dict[str, jax.Array]]:
        batch = jax.tree.map(lambda x: x[starts[:, None] + np.arange(config.length)], replay.data)
        return update(config, programs.SPEC, state, batch, jax.random.key(0), with_pi=False)

    def losses(batches: list[list[int]]) -> Answer:
        """After each update on these windows, by their starts: what shows that two programs do the same."""
        state, found = start, []
        for starts in batches:
            state, metrics = at(state, np.array(starts))
            found.append([float(metrics["V_error"]), float(metrics["dual_residual"])])
        return {"losses": found}

    def matmul(size: int) -> Answer:
        """Multiply-adds per second of a square product: the better of jax's and numpy's."""
        a = np.random.default_rng(0).standard_normal((size, size), np.float32)
        on_device, product = jax.numpy.asarray(a), jax.jit(lambda x: x @ x)
        programs.seconds(product, on_device)
        by_jax = min(programs.seconds(product, on_device) for _ in range(3))
        by_numpy = []
        for _ in range(3):
            begin = time.perf_counter()
            a @ a
            by_numpy.append(time.perf_counter() - begin)
        return {"rate": size**3 / min(by_jax, *by_numpy)}

    updates()
    serve({"updates": updates, "losses": losses, "matmul": matmul}, device=programs.device())


def hand_over(path: Path, start: Learner, replay: Replay) -> None:
    nets = {"V": start.V, "dual": start.dual.net}
    layers = {f"{name}_W{i}": W for name, net in nets.items() for i, W in enumerate(net.weights)}
    biases = {f"{name}_b{i}": b for name, net in nets.items() for i, b in enumerate(net.biases)}
    log_pi = start.pi.log_prob(replay.data.obs, replay.data.action)
    np.savez(path, **layers, **biases, **replay.data._asdict(), log_pi=log_pi)


if __name__ == "__main__":
    main()
