"""Off-policy evaluation: estimate the value of a policy from data of other policies alone.

Two estimates of J = E[sum_t gamma^t r_t] over the data's first states. *Fitted*: a Q is fitted to
r + gamma E_{a'~pi}[Q(s', a')] and averaged over first states; its error is Q's, which no interval of the data knows.
*Doubly robust*: Q's errors along the data, r + gamma V(s') - Q(s, a), are added with the weights
prod pi / pi_b, self-normalised at each step; that removes Q's bias where the weights are sound, and is noise where few
pieces of data carry them all. pi_b is a clone. Intervals are the bootstrap's over pieces of the path.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.shared.policies import cloned, make_policy
from sbeed.agents.shared.steps import follow, optimizer, stepped
from sbeed.data.dataset import Dataset
from sbeed.models.distributions import Finite
from sbeed.models.nets import MLP
from sbeed.models.policies import Policy
from sbeed.types import Array, EnvSpec, Key, Scalar, Transition

HIDDEN, BATCH = (64, 64), 256
SLOW = 0.05  # quick: value travels one step per 1 / SLOW updates, and must travel 1 / (1 - gamma) steps several times
STEP_SIZE = 1e-3
RESAMPLES = 500
THIN = 0.05  # share of the data that must carry a step's weights, and least pieces, for an estimate to be trusted
LEAST_PIECES = 10


class ValueEstimate(NamedTuple):
    """Discounted values over the data's first states; each interval holds 95% of the bootstrap."""

    fitted: float
    fitted_interval: tuple[float, float]
    robust: float
    robust_interval: tuple[float, float]
    coverage: float  # effective share of the transitions when weighted by pi / pi_b: 1 if pi is the behaviour
    effective_pieces: float  # that carry the weights halfway to the horizon
    pieces: int
    warning: str | None  # where coverage is thin


class Told(NamedTuple):
    """The quantities that the equations need, for every transition of the path.   All [N]"""

    q: Array
    v: Array
    v_next: Array
    log_ratio: Array  # log pi / pi_b of the action taken


def estimate_value(
    policy: Policy, dataset: Dataset, *, gamma: float, updates: int = 20_000, seed: int = 0
) -> ValueEstimate:
    """policy: with its normaliser, as it acts."""
    data = dataset.transitions()
    raw = policy.on_host().unsquash(data.action)
    rows: Transition = jax.tree.map(jnp.asarray, data._replace(action=raw))
    told = jax.device_get(_tell(policy, rows, gamma, jax.random.key(seed), spec=dataset.spec, updates=updates))
    horizon = int(np.ceil(3 / (1 - gamma)))  # what lies beyond it counts for less than a twentieth
    starts, lengths = pieces(dataset, horizon)
    # A dataset of episodes is asked from their beginnings, a path from wherever a piece begins.
    first = np.isin(starts, dataset.starts) if not dataset.single_path else np.ones(len(starts), bool)
    starts, lengths = starts[first], lengths[first]
    errors = np.asarray(data.reward) + gamma * np.where(data.terminated, 0, told.v_next) - told.q
    # A piece that has ended keeps its weight and owes nothing more.
    log_w = np.cumsum(_padded(told.log_ratio, starts, lengths), axis=1)
    correction = _padded(errors, starts, lengths)
    begin = told.v[starts]
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(starts), size=(RESAMPLES, len(starts)))
    robust = partial(doubly_robust, gamma=gamma)
    half = effective(log_w[:, min(horizon // 6, log_w.shape[1] - 1)])  # 1 / (2 (1 - gamma)) steps
    coverage = effective(told.log_ratio) / len(dataset)
    return ValueEstimate(
        float(begin.mean()),
        _interval(begin[draws].mean(1)),
        robust(begin, log_w, correction),
        _interval(np.array([robust(begin[i], log_w[i], correction[i]) for i in draws])),
        coverage,
        half,
        len(starts),
        _warning(coverage, half),
    )


def doubly_robust(v: np.ndarray, log_w: np.ndarray, errors: np.ndarray, *, gamma: float) -> float:
    """mean V(s_0) + sum_t gamma^t sum_i w_it e_it / sum_i w_it,  w_it = prod_{u<=t} pi / pi_b, e = r + gamma V' - Q

    v: [pieces]; log_w, errors: [pieces, T]
    """
    w = np.exp(log_w - log_w.max(0))
    steps = (w * errors).sum(0) / w.sum(0)
    return float(v.mean() + np.sum(gamma ** np.arange(len(steps)) * steps))


def effective(log_w: np.ndarray) -> float:
    """(sum w)^2 / sum w^2: how many of them carry the weight."""
    w = np.exp(log_w - log_w.max())
    return float(w.sum() ** 2 / (w**2).sum())


def pieces(dataset: Dataset, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Episodes, cut every `most` steps: the first index and the length of each."""
    starts = np.concatenate([np.arange(a, a + n, most) for a, n in zip(dataset.starts, dataset.lengths)])
    ends = np.append(starts[1:], len(dataset))
    return starts, ends - starts


def _padded(x: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[N] -> [pieces, longest], zero after the end of a piece."""
    steps = np.arange(lengths.max())
    inside = steps < lengths[:, None]
    return np.where(inside, np.asarray(x)[np.where(inside, starts[:, None] + steps, 0)], 0.0)


def _interval(values: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _warning(coverage: float, half: float) -> str | None:
    if coverage >= THIN and half >= LEAST_PIECES:
        return None
    return (
        f"coverage is thin: by its actions the policy is at home in {100 * coverage:.1f}% of the data, and {half:.1f} "
        "pieces carry the weights halfway to the horizon; trust an order of policies before a number"
    )


# ------------------------------------------------------------------------------------------------- networks


@eqx.filter_jit
def _tell(policy: Policy, rows: Transition, gamma: Scalar, key: Key, *, spec: EnvSpec, updates: int) -> Told:
    """Fit Q to pi and the clone to the data, and evaluate both along the path."""
    k_net, k_fit, k_clone, k_look = jax.random.split(key, 4)
    discrete = spec.action_kind == "discrete"
    mean, std = rows.obs.mean(0), rows.obs.std(0) + 1e-6
    scale = 1 / (1 - gamma) * jnp.maximum(jnp.abs(rows.reward).mean(), 1e-6)  # Q is learned in units of this
    inputs = spec.observation_size + (0 if discrete else spec.action_size)
    net = MLP((inputs, *HIDDEN, spec.action_size if discrete else 1), key=k_net, activation="tanh", last_scale=0.01)

    def Q(net: MLP, obs: Array, action: Array) -> Array:
        x = (obs - mean) / std
        if discrete:
            return scale * jnp.take_along_axis(net(x), action[..., None].astype(int), axis=-1)[..., 0]
        return scale * net(jnp.concatenate([x, policy.squash(action)], axis=-1))[..., 0]

    def V(net: MLP, obs: Array, k: Key) -> Array:
        """E_{a~pi}[Q]: exact if actions are discrete, else of one draw."""
        distribution = policy.distribution(obs)
        if isinstance(distribution, Finite):
            return jnp.sum(jnp.exp(distribution.log_probs) * scale * net((obs - mean) / std), axis=-1)
        return Q(net, obs, distribution.sample(k)[0])

    # No policy is worth more than the best reward for ever, nor less than the worst, whatever Q says of unseen actions.
    low = jnp.minimum(rows.reward.min(), 0) / (1 - gamma)
    high = jnp.maximum(rows.reward.max(), 0) / (1 - gamma)

    def batch(k: Key) -> Transition:
        index = jax.random.randint(k, (BATCH,), 0, rows.reward.shape[0])
        return jax.tree.map(lambda x: x[index], rows)

    def update(carry: tuple[MLP, MLP, Any], i: Array) -> tuple[tuple[MLP, MLP, Any], None]:
        net, slow, opt = carry
        k_batch, k_draw = jax.random.split(jax.random.fold_in(k_fit, i))
        b = batch(k_batch)
        goal = b.reward + gamma * jnp.where(b.terminated, 0, jnp.clip(V(slow, b.next_obs, k_draw), low, high))
        g = eqx.filter_grad(lambda net: jnp.mean(((Q(net, b.obs, b.action) - goal) / scale) ** 2))(net)
        left = jnp.asarray(1 - i / updates, jnp.float32)
        net, opt = stepped(optimizer("adam", STEP_SIZE * left), net, opt, g)
        return (net, follow(slow, net, SLOW), opt), None

    start = net, net, optimizer("adam", 0.0).init(eqx.filter(net, eqx.is_array))
    (net, _, _), _ = jax.lax.scan(update, start, jnp.arange(updates))

    kind: dict[str, Any] = {"kind": "mlp", "squash": _squashes(policy), "features": 1, "initial_std": 1.0}
    blank = make_policy(spec, k_clone, hidden=HIDDEN, activation="tanh", **kind)

    def seen(k: Key) -> tuple[Array, Array]:
        b = batch(k)
        return (b.obs - mean) / std, b.action

    behaviour = cloned(blank, seen, k_clone, steps=2_000, step_size=STEP_SIZE)
    log_b = behaviour.log_prob((rows.obs - mean) / std, rows.action)
    draws = 1 if discrete else 8
    keys = jax.random.split(k_look, draws)
    v, v_next = (
        jnp.clip(jnp.mean(jax.vmap(lambda k, obs=obs: V(net, obs, k))(keys), axis=0), low, high)
        for obs in (rows.obs, rows.next_obs)
    )
    return Told(Q(net, rows.obs, rows.action), v, v_next, policy.log_prob(rows.obs, rows.action) - log_b)


def _squashes(policy: Any) -> bool:
    """True if the policy's raw actions are before a tanh; the clone's must then be too."""
    return bool(getattr(getattr(policy, "policy", policy), "squashed", False))
