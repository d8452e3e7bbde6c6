"""pi_Q where actions are discrete: a policy that is read off Q, so that there is no actor to train."""

from functools import partial
from typing import Any

import jax
import numpy as np

from sbeed.agents.q_sbeed import equations
from sbeed.models import forward, host
from sbeed.models.host import HostCategorical, HostPolicy
from sbeed.models.policies import Categorical, CategoricalPolicy
from sbeed.models.q_net import ActionValues
from sbeed.types import Array


class PolicyOfQ(CategoricalPolicy):
    """pi_Q(a|s) = pi_b(a|s) exp((Q(s,a) - V_Q(s)) / lam), with the smaller of the twins for Q."""

    Q: ActionValues
    log_lam: Array
    prior: Categorical | None

    def logits(self, obs: Array) -> Array:
        prior = None if self.prior is None else self.prior.distribution(obs).log_probs
        return equations.log_pi_of(self.Q(obs).min(0), lam=jax.numpy.exp(self.log_lam), prior=prior)

    def on_host(self) -> HostPolicy:
        twins = self.Q.net.passes.shape[0]
        networks = [_on_host(jax.tree.map(lambda x, i=i: np.array(x[i]), self.Q.net)) for i in range(twins)]
        prior = None if self.prior is None else self.prior.on_host().outputs
        actions = self.Q.net.net.biases[-1].shape[-1]
        return HostCategorical(partial(host.least_of_networks, networks, float(np.exp(self.log_lam)), prior), actions)


def _on_host(net: Any) -> Any:
    """One network in numpy; a batch norm by running statistics is part of its layer's weights."""
    weights, biases, norms = list(net.net.weights), list(net.net.biases), list(zip(net.norms, net.gains, net.shifts))
    for i, (mean, var) in enumerate(zip(*net.running)):
        slope = net.gains[i] / np.sqrt(var + forward.EPSILON)
        weights[i], biases[i] = weights[i] * slope, (biases[i] - mean) * slope + net.shifts[i]
        norms[i] = ("none", None, None)
    return partial(host.normalized_network, weights, biases, norms)
