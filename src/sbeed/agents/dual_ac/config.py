"""Every knob of Dual-AC, with what it does, its range and, where the SBEED paper's comparison speaks of it, its value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass

from sbeed.agents.knobs import knob
from sbeed.agents.shared.on_policy_config import RoundConfig


@dataclass(frozen=True)
class DualACConfig(RoundConfig):
    k: int = knob(
        10,
        "steps of a path after its first one; 0 is the one-step Lagrangian; more add variance",
        low=0,
        paper="not said",
    )
    eta_V: float = knob(  # noqa: N815  the paper's name
        10.0,
        "weight of the path regularisation, in units of 1 / V; larger holds V nearer to the returns of the path",
        low=0,
        open=True,
        paper="not said",
    )
    alpha_step_size: float = knob(
        0.01,
        "step size of log alpha along delta; larger weighs states more unevenly; 0 keeps alpha at the states visited",
        low=0,
    )
