"""Actions on the host, one observation at a time.   acting SETTING"""

import json
import sys
import time

import jax
import numpy as np

from benchmarks.processes import Answer, serve
from benchmarks.systems import programs
from sbeed.agents.knobs import with_fields
from sbeed.agents.registry import SBEED
from sbeed.models.policies import Policy


def made(policy: str, size: int) -> Policy:
    """With weights that are not zero, so that actions differ."""
    name, field = ("paper", {"features": size}) if policy == "rbf" else ("default", {"hidden": (size, size)})
    config = with_fields(SBEED.preset(name, programs.SPEC), field)
    pi = SBEED.init(config, programs.SPEC, jax.random.key(0)).pi
    leaves, form = jax.tree.flatten(pi)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    return jax.tree.unflatten(form, [x + 0.02 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys)])


def main() -> None:
    setting = json.loads(sys.argv[1])
    pi = made(setting["policy"], setting["size"])
    actor = pi.on_host()
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((1000, programs.SPEC.observation_size), np.float32)

    def act(times: int) -> Answer:
        begin = time.perf_counter()
        for i in range(times):
            actor.squash(actor.draw(observations[i % 1000], rng))
        return {"seconds": (time.perf_counter() - begin) / times}

    def difference() -> Answer:
        """Of what the environment receives of the deterministic action, from the jitted policy's."""
        on_host = np.stack([actor.squash(actor.mode(obs)) for obs in observations])
        on_device = jax.jit(lambda pi, obs: pi.squash(pi.mode(obs)))(pi, observations)
        return {"difference": float(np.abs(on_host - on_device).max())}

    act(1000)
    serve({"act": act, "difference": difference})


if __name__ == "__main__":
    main()
