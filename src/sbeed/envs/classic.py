"""Two classic tasks as pure functions, equal to Gymnasium's Pendulum-v1 and CartPole-v1."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.envs.base import JaxEnv, Step
from sbeed.types import Array, EnvSpec, Key


class PendulumState(NamedTuple):
    angle: Array  # 0 is upright; kept in [-pi, pi), so that float32 loses no digits to full turns
    velocity: Array
    t: Array


class Pendulum(JaxEnv):
    """Swing a pendulum up and hold it there. The action is the torque as a share of its bound, 2.

    It never terminates: the time limit of 200 steps truncates, so V(s') counts at the end.
    """

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("jax:pendulum", observation_size=3, action_kind="box", action_size=1, time_limit=200)

    def reset(self, key: Key) -> PendulumState:
        bounds = jnp.array([jnp.pi, 1], jnp.float32)
        angle, velocity = jax.random.uniform(key, (2,), jnp.float32, -bounds, bounds)
        return PendulumState(angle, velocity, jnp.int32(0))

    def observe(self, state: PendulumState) -> Array:
        return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.velocity])

    def step(self, state: PendulumState, action: Array, key: Key) -> Step:
        # A rod of mass 1 and length 1, gravity 10, semi-implicit Euler steps of 0.05 s.
        angle, velocity, t = state
        torque = 2 * jnp.clip(action[0].astype(angle.dtype), -1, 1)
        reward = -(angle**2 + 0.1 * velocity**2 + 0.001 * torque**2)
        velocity = jnp.clip(velocity + 0.05 * (15 * jnp.sin(angle) + 3 * torque), -8, 8)
        angle = (angle + 0.05 * velocity + jnp.pi) % (2 * jnp.pi) - jnp.pi
        after = PendulumState(angle, velocity, t + 1)
        return Step(after, self.observe(after), reward, jnp.array(False), after.t >= 200)


class CartPoleState(NamedTuple):
    position: Array
    velocity: Array
    angle: Array  # 0 is upright
    angular_velocity: Array
    t: Array


class CartPole(JaxEnv):
    """Balance a pole on a cart by pushing it left (0) or right (1).

    Every step pays 1, the one on which the pole falls included: V of a state about to fall is 1, not 0.
    """

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("jax:cartpole", observation_size=4, action_kind="discrete", action_size=2, time_limit=500)

    def reset(self, key: Key) -> CartPoleState:
        position, velocity, angle, angular_velocity = jax.random.uniform(key, (4,), jnp.float32, -0.05, 0.05)
        return CartPoleState(position, velocity, angle, angular_velocity, jnp.int32(0))

    def observe(self, state: CartPoleState) -> Array:
        return jnp.stack(state[:4])

    def step(self, state: CartPoleState, action: Array, key: Key) -> Step:
        # Cart of mass 1, pole of mass 0.1 and half-length 0.5, force 10, gravity 9.8, explicit Euler steps of 0.02 s.
        position, velocity, angle, angular_velocity, t = state
        sin, cos = jnp.sin(angle), jnp.cos(angle)
        force = jnp.where(action == 1, 10, -10).astype(angle.dtype)
        push = (force + 0.05 * angular_velocity**2 * sin) / 1.1
        angular_acceleration = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        acceleration = push - 0.05 * angular_acceleration * cos / 1.1
        after = CartPoleState(
            position + 0.02 * velocity,
            velocity + 0.02 * acceleration,
            angle + 0.02 * angular_velocity,
            angular_velocity + 0.02 * angular_acceleration,
            t + 1,
        )
        terminated = (jnp.abs(after.position) > 2.4) | (jnp.abs(after.angle) > jnp.deg2rad(12))
        return Step(after, self.observe(after), jnp.ones_like(angle), terminated, ~terminated & (after.t >= 500))
