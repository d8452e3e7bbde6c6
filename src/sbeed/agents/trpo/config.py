"""Every knob of TRPO, with what it does, its range and, where the SBEED paper's comparison speaks of it, its value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass

from sbeed.agents.knobs import knob
from sbeed.agents.shared.on_policy_config import RoundConfig


@dataclass(frozen=True)
class TRPOConfig(RoundConfig):
    gae_lambda: float = knob(
        0.95,
        "weight of longer advantages against shorter ones (GAE's lambda); 0 uses one step, 1 the whole path; "
        "larger adds variance and lowers bias",
        low=0,
        high=1,
        paper="not said",
    )
    line_search: bool = knob(
        True, "shorten the step until the KL and the surrogate confirm it; off gives the natural policy gradient"
    )
