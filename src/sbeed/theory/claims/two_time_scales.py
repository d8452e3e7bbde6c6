"""Algorithm 2: networks for V and rho, rho on the faster time scale."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.ops.prox import euclidean
from sbeed.ops.schedules import TwoTimeScales, two_time_scales
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, every
from sbeed.theory.enumerate import transitions
from sbeed.theory.sampling import empirical_mdp, transition_counts
from sbeed.types import Array, Key, Scalar

LENGTH = 10_000  # T, the fixed sample
BATCH = 32
HIDDEN = 16
ITERATIONS = 10_000
REPLICATES = 4  # networks and minibatches per MDP
SNAPSHOTS = 100  # full-batch gradients measured along the way
LAM = 0.3
STEPS = two_time_scales(primal=0.01, dual=0.1, delay=1_000)
REVERSED = TwoTimeScales(primal=STEPS.dual, dual=STEPS.primal)


class Values(NamedTuple):
    """V(s) = w . tanh(W_s + b) + c: a tanh network on one-hot states."""

    by_state: Array  # [S, HIDDEN]
    bias: Array  # [HIDDEN]
    out: Array  # [HIDDEN]
    offset: Array

    def __call__(self) -> Array:
        """The table of V.   [S]"""
        return jnp.tanh(self.by_state + self.bias) @ self.out + self.offset


class Primal(NamedTuple):
    """V, a network as rho is, so that equal steps are equally fast; and the table of pi's logits."""

    V: Values
    logits: Array  # [S, A]

    @property
    def log_pi(self) -> Array:
        return jax.nn.log_softmax(self.logits)


class Dual(NamedTuple):
    """rho(s, a) = w . tanh(W_s + W_a + b) + c: a tanh network on one-hot states and actions."""

    by_state: Array  # [S, HIDDEN]
    by_action: Array  # [A, HIDDEN]
    bias: Array  # [HIDDEN]
    out: Array  # [HIDDEN]
    offset: Array

    def __call__(self) -> Array:
        """The table of rho.   [S, A]"""
        hidden = jnp.tanh(self.by_state[:, None] + self.by_action[None] + self.bias)
        return hidden @ self.out + self.offset


def random_dual(mdp: FiniteMDP, key: Key) -> Dual:
    normal = jax.random.normal(key, (mdp.states + mdp.actions + 2, HIDDEN))
    by_state, by_action, (bias, out) = jnp.split(normal, [mdp.states, mdp.states + mdp.actions])
    return Dual(by_state, by_action, bias, out / np.sqrt(HIDDEN), jnp.zeros(()))


def random_primal(mdp: FiniteMDP, key: Key) -> Primal:
    """A random V and the uniform policy."""
    normal = jax.random.normal(key, (mdp.states + 2, HIDDEN))
    by_state, (bias, out) = jnp.split(normal, [mdp.states])
    return Primal(Values(by_state, bias, out / np.sqrt(HIDDEN), jnp.zeros(())), jnp.zeros_like(mdp.pi_b))


Params = TypeVar("Params", Primal, Dual)


class Players(NamedTuple):
    primal: Primal
    dual: Dual


def gradients(sample: FiniteMDP, players: Players, eta: Scalar) -> tuple[Array, Array]:
    """Lengths of the full-batch gradients of L_eta in the primal's parameters and in the dual's."""

    def objective(players: Players) -> Array:
        z = players.primal
        return exact.L_eta(sample, z.V(), z.log_pi, players.dual(), LAM, eta)

    primal, dual = jax.grad(objective)(players)
    return length(primal), length(dual)


def move(w: Params, g: Params, step_size: Array) -> Params:
    return jax.tree.map(lambda w, g: euclidean(w, step_size * g), w, g)


def length(tree: Primal | Dual) -> Array:
    return optax.tree.norm(tree)


def algorithm_2(
    sample: FiniteMDP, key: Key, *, eta: Scalar, steps: TwoTimeScales, iterations: int
) -> tuple[Array, Array]:
    """Gradient lengths before each of SNAPSHOTS equal stretches and at the end.   [SNAPSHOTS + 1] each

    The dual descends (delta - rho)^2, the sign of erratum E1.
    """
    t = transitions(sample)
    cumulative = jnp.cumsum(t.weight)[:-1]
    k_primal, k_dual, k_batches = jax.random.split(key, 3)

    def both_losses(players: Players, batch: Array) -> Array:
        """The primal's loss with the dual held plus the dual's with the primal held: one gradient serves both."""
        s, a, s_next = (jnp.asarray(x)[batch] for x in (t.s, t.a, t.s_next))
        V, log_pi, rho = players.primal.V(), players.primal.log_pi, players.dual()[s, a]
        delta = equations.delta_one_step(t.r[batch], log_pi[s, a], V[s_next], gamma=sample.gamma, lam=LAM)
        held_rho, held_delta = jax.lax.stop_gradient((rho, delta))
        return equations.L_eta(delta, V[s], held_rho, eta=eta) + equations.dual_loss(held_delta, rho)

    def step(players: Players, x: tuple[Array, Array]) -> tuple[Players, None]:
        j, batch = x
        g = jax.grad(both_losses)(players, batch)
        return Players(move(players.primal, g.primal, steps.primal(j)), move(players.dual, g.dual, steps.dual(j))), None

    def stretch(players: Players, x: tuple[Array, Key]) -> tuple[Players, tuple[Array, Array]]:
        first, k = x
        seen = gradients(sample, players, eta)
        batches = jnp.searchsorted(cumulative, jax.random.uniform(k, (chunk, BATCH)))
        return jax.lax.scan(step, players, (first + jnp.arange(chunk), batches))[0], seen

    chunk = iterations // SNAPSHOTS
    starts = 1 + chunk * jnp.arange(SNAPSHOTS)
    players = Players(random_primal(sample, k_primal), random_dual(sample, k_dual))
    players, seen = jax.lax.scan(stretch, players, (starts, jax.random.split(k_batches, SNAPSHOTS)))
    (primal, dual), (last_primal, last_dual) = seen, gradients(sample, players, eta)
    return jnp.append(primal, last_primal), jnp.append(dual, last_dual)


def settles(lengths: Array) -> Claim:
    """The gradient falls by a fifth at least per decade of iterations, and ends at a tenth of its start at most.

    The fall is fitted to the last two decades by least squares; means are over replicates and, at the end, over a tenth
    of the run, because a stochastic iterate's gradient does not fall step by step.   [replicates, SNAPSHOTS + 1]
    """
    square = jnp.mean(lengths**2, axis=0)
    decades = np.log10(np.arange(1, SNAPSHOTS + 1))
    x = decades - decades.mean()
    slope = x @ jnp.log10(square[1:]) / (x @ x) / 2
    return every(at_most(10**slope, 0.8), at_most(jnp.sqrt(jnp.mean(square[-10:])), jnp.sqrt(square[0]) / 10))


def reaches_equilibrium(sample: FiniteMDP, key: Key, *, eta: Scalar, steps: TwoTimeScales, iterations: int) -> Claim:
    """Both players settle, whatever network and minibatches they are dealt."""

    def lengths(k: Key) -> tuple[Array, Array]:
        return algorithm_2(sample, k, eta=eta, steps=steps, iterations=iterations)

    return every(*map(settles, jax.vmap(lengths)(jax.random.split(key, REPLICATES))))


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Both full-batch gradients of the empirical L_eta go to zero, eta = 1/2 and 1: a local Nash equilibrium."""
    k_path, k_run = jax.random.split(key)
    sample = empirical_mdp(mdp, transition_counts(mdp, k_path, (LENGTH,))[0])

    def of(eta: Array) -> Claim:
        return reaches_equilibrium(sample, k_run, eta=eta, steps=STEPS, iterations=ITERATIONS)

    claims = jax.vmap(of)(jnp.array([0.5, 1.0]))
    return every(*(Claim(*sides) for sides in zip(*claims)))


def counterexample() -> Claim:
    """The two scales reversed, the very same steps: with rho behind, L_1 falls without bound."""
    return reaches_equilibrium(two_state(noise=0.5), jax.random.key(0), eta=1.0, steps=REVERSED, iterations=300)


STATEMENT = Statement(
    name="two_time_scales",
    says="with networks for V and rho, rho ten times as fast, both gradients of L_eta go to zero, eta = 1/2 and 1",
    labels=("alg:sbeed_dual_nn",),
    check=check,
    without="the faster time scale: with the two steps exchanged L_eta falls without bound",
    counterexample=counterexample,
    asymptotic=True,
)
