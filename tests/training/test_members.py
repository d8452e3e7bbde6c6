"""One program for all members: side by side or as one, with the same answers and one compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.training.members import MOST_THREADS, Members

traced = []


def _program(tree, number, shared, *, power):
    traced.append(power)
    return {"sum": tree["x"].sum() + shared}, number**power


@pytest.mark.parametrize("together", [False, True])
def test_each_member_has_its_own(together):
    members = Members(3, together)
    trees = members.hold([{"x": np.arange(4) + i} for i in range(3)])
    numbers = members.hold([np.float32(i) for i in range(3)])
    sums, powers = members.run(_program, trees, numbers, shared=(10,), static={"power": 2})
    assert [float(one["sum"]) for one in members.fetch(sums)] == [16, 20, 24]
    assert [float(one) for one in members.fetch(powers)] == [0, 1, 4]


def test_programs_are_compiled_once_whoever_asks():
    traced.clear()
    for together in (False, True):
        for _ in range(2):
            members = Members(2, together)
            held = members.hold([{"x": jnp.arange(7.0)}] * 2), members.hold([np.float32(1)] * 2)
            members.run(_program, *held, shared=(1,), static={"power": 3})
    assert traced == [3, 3]


def test_many_members_give_their_memory_away_side_by_side():
    members = Members(2 * MOST_THREADS, together=False)
    held = members.hold([np.full(1000, i, np.float32) for i in range(members.count)])
    for _ in range(3):
        held = members.run(_doubled, held, donate=(0,))
    assert [float(one[0]) for one in members.fetch(held)] == [8 * i for i in range(members.count)]


def _doubled(x):
    return 2 * x


def test_what_one_member_raises_is_heard_when_all_are_done():
    members = Members(3, together=False)
    held = members.hold([np.zeros(2 if i == 1 else 3, np.float32) for i in range(3)])
    seen = []

    def only_three(x):
        seen.append(x.shape)
        if x.shape != (3,):
            raise ValueError("two numbers")
        return x

    with pytest.raises(ValueError, match="two numbers"):
        members.run(only_three, held)
    assert set(seen) == {(2,), (3,)}


def test_a_gpu_takes_members_as_one_and_a_cpu_side_by_side():
    assert Members(2).together == (jax.default_backend() != "cpu")
