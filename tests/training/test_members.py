"""One program for all members: in turn or at once, with the same answers and one compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.training.members import Members

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


def test_a_gpu_takes_members_at_once_and_a_cpu_one_by_one():
    assert Members(2).together == (jax.default_backend() != "cpu")
