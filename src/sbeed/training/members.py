"""Run one program for every member of a population."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import cycle
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Held: TypeAlias = Any  # one tree for each member
MOST_THREADS = 16


class Members:
    """Hold the trees of M members, and run a program of one member for all of them.

    `together`: trees are stacked and programs vmapped, one launch for all, which is what a GPU wants. Otherwise the
    same solo program runs for each member: XLA's batched products are slow on a CPU, and so each member's numbers equal
    those of its solo run bit for bit. Each is launched from a thread of its own, because XLA lets what one thread has
    launched wait for each other, and one small update alone cannot keep two cores busy. So of jax's settings only those
    of the whole process hold for all members, not those of a `with`.
    """

    def __init__(self, count: int, together: bool | None = None):
        self.count = count
        self.together = jax.default_backend() != "cpu" if together is None else together
        launching = 0 if self.together else min(count - 1, MOST_THREADS)
        self._threads = [ThreadPoolExecutor(1) for _ in range(launching)]

    def hold(self, trees: Sequence[Any]) -> Held:
        """Put the trees on the device, one for each member."""
        if self.together:
            return jax.tree.map(_stack, *trees)
        return [jax.tree.map(jnp.asarray, tree) for tree in trees]

    def fetch(self, held: Held) -> list[Any]:
        """Get each member's tree, with numpy arrays."""
        if not self.together:
            return jax.device_get(held)
        stacked = jax.device_get(held)
        return [jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(self.count)]

    def run(
        self,
        program: Callable[..., Any],
        *held: Held,
        shared: tuple = (),
        donate: tuple[int, ...] = (),
        static: Mapping[str, Hashable] | None = None,
    ) -> Any:
        """Call program(*trees of one member, *shared, **static) for all members; it returns a tree or a tuple of trees.

        There is one compilation per program, static arguments and shapes. donate: which of `held` give their memory to
        the result.
        """
        call = _compiled(program, self.together, len(held), len(shared), donate, tuple((static or {}).items()))
        if self.together:
            return call(*held, *shared)
        first, *others = zip(*held)
        begun = call(*first, *shared)  # compiled once, before the others ask for it
        rest = [thread.submit(call, *trees, *shared) for thread, trees in zip(cycle(self._threads), others)]
        wait(rest)  # before one raises: no other may still be giving memory away
        results = [begun, *(one.result() for one in rest)]
        return tuple(list(parts) for parts in zip(*results)) if type(begun) is tuple else results


def _stack(*leaves: Any) -> jax.Array:
    # On the host first, where they are there: one transfer instead of one for each member.
    return jnp.asarray(np.stack(leaves)) if isinstance(leaves[0], np.ndarray | np.generic) else jnp.stack(leaves)


@cache
def _compiled(program: Callable, together: bool, held: int, shared: int, donate: tuple[int, ...], static: tuple) -> Any:
    solo = partial(program, **dict(static))
    return jax.jit(jax.vmap(solo, (0,) * held + (None,) * shared) if together else solo, donate_argnums=donate)
