"""The paper's equations in Q-coordinates: arrays in, arrays out.

For lam > 0 the map (V, pi) -> Q = V + lam log pi is one-to-one between pairs of a value function and a policy with full
support, and functions on S x A. Put into the paper's loss it leaves L_eta as it stands, with Q in the place of V:

    ell(V, pi) = E_{s,a}[(R + gamma E[V(s')] - lam log pi(a|s) - V(s))^2] = E_{s,a}[(R + gamma E[V_Q(s')] - Q(s,a))^2]

so `ell`, `L`, `L_eta` and `dual_loss` are those of `agents/sbeed/equations.py`. Here are V_Q, pi_Q and the targets.
`prior`: log pi_b(a|s) where the entropy is relative to a behaviour policy; None for the uniform measure.
"""

import jax
import jax.numpy as jnp

from sbeed.ops.returns import Affine, compose_to_end
from sbeed.types import Array, Scalar


def V_of(q: Array, *, lam: Scalar, prior: Array | None = None) -> Array:
    """V_Q(s) = lam log sum_a pi_b(a|s) exp(Q(s,a) / lam)

    Its gradient is the envelope's: grad V_Q(s) = E_{a ~ pi_Q}[grad Q(s,a)].   [..., A] -> [...]
    """
    return lam * jax.nn.logsumexp(_scaled(q, lam, prior), axis=-1)


def log_pi_of(q: Array, *, lam: Scalar, prior: Array | None = None) -> Array:
    """log pi_Q(a|s) = log pi_b(a|s) + (Q(s,a) - V_Q(s)) / lam   [..., A] -> [..., A]"""
    return jax.nn.log_softmax(_scaled(q, lam, prior), axis=-1)


def _scaled(q: Array, lam: Scalar, prior: Array | None) -> Array:
    return q / lam if prior is None else q / lam + prior


def Q_of(v: Array, log_pi: Array, *, lam: Scalar, prior: Array | None = None) -> Array:
    """Q(s,a) = V(s) + lam log(pi(a|s) / pi_b(a|s)), the inverse of `V_of` and `log_pi_of`

    [...], [..., A] -> [..., A]
    """
    return v[..., None] + lam * (log_pi if prior is None else log_pi - prior)


def soft_value(q: Array, log_pi: Array, *, lam: Scalar, prior: Array | None = None) -> Array:
    """Q(s,a) - lam log(pi(a|s) / pi_b(a|s)),  a ~ pi: one draw of a lower bound on V_Q(s), tight at pi = pi_Q

    A mean over `pi` in place of pi_Q falls short of V_Q by lam KL(pi || pi_Q).
    """
    return q - lam * (log_pi if prior is None else log_pi - prior)


def td_error(r: Array, v_next: Array, q: Array, terminated: Array, *, gamma: Scalar) -> Array:
    """td = R(s,a) + gamma V_Q(s') - Q(s,a)

    V(s') counts as 0 after `terminated`, and only then: a time limit still bootstraps. At the optimum
    E[td | s, a] = 0 for every (s, a), whatever policy chose a.
    """
    return r + gamma * jnp.where(terminated, 0, v_next) - q


def path_errors(td: Array, last: Array, *, gamma: Scalar, trace: Scalar) -> Array:
    """delta_t - Q(s_t, a_t) = sum_i (gamma trace)^i td_t+i up to the path's end, for every t

    The paper's trace error [paper: eq:dual_eligible_trace], and with trace = 1 its k-step error over the k steps given,
    because lam log pi_Q(a_i|s_i) = Q(s_i, a_i) - V_Q(s_i).   td: [..., k], last: [..., k] -> [..., k]
    """
    passed_on = jnp.where(last, 0, jnp.asarray(gamma * trace, td.dtype))
    return compose_to_end(Affine(td, jnp.broadcast_to(passed_on, td.shape))).c


def with_backward_share(delta: Array, kappa: Scalar) -> Array:
    """delta, of which a share kappa is differentiated: 1 is the gradient of L_eta, 0 the semi-gradient."""
    return kappa * delta + (1 - kappa) * jax.lax.stop_gradient(delta)


def least_share(bb: Array, bg: Array, gg: Array, *, cosine: Scalar) -> Array:
    """The least c in [0, 1] with cos(f + c b, g) >= cosine, where g = f + b is the gradient

    f is its forward half, b its backward one. f + c b = g - (1 - c) b turns towards g as c grows, so with t = 1 - c the
    least c is where t |b across g| = tan (|g| - t b along g). Every such step descends; c = 1 is the gradient itself.
    bb, bg, gg: the products <b, b>, <b, g> and <g, g>.
    """
    length = jnp.sqrt(jnp.maximum(gg, jnp.finfo(gg.dtype).tiny))
    along = bg / length
    across = jnp.sqrt(jnp.maximum(bb - along**2, 0))
    slope = jnp.sqrt(1 - cosine**2) / jnp.maximum(cosine, 1e-6)
    turned = across + slope * along
    most = jnp.where(turned > 0, slope * length / jnp.where(turned > 0, turned, 1), 1)
    return 1 - jnp.clip(most, 0, 1)
