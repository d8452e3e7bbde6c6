"""Every statement holds where its premises do, and fails where they do not."""

import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.theory import report
from sbeed.theory.claim import Claim, at_most, equal, every
from sbeed.theory.claims import STATEMENTS


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.name)
def test_statement(statement):
    # Another seed and fewer MDPs than the standard run of `sbeed theory`.
    row = report.examine(statement, mdps=4 if statement.asymptotic else 20, seed=1)
    assert row.held == row.mdps, f"holds on {row.held} of {row.mdps} MDPs, smallest margin {row.margin}"
    assert row.counterexample_fails, f"holds even without {statement.without}"


def test_names_are_unique_and_say_something():
    names = [statement.name for statement in STATEMENTS]
    assert len(set(names)) == len(names)
    for statement in STATEMENTS:
        assert statement.says
        assert statement.without
        assert statement.check.__module__.endswith(f".claims.{statement.name}")


def test_margin_is_the_share_left_unused():
    assert at_most(1.0, 4.0).margin == 0.75
    assert at_most(0.0, 4.0).margin == 1
    assert bool(at_most(4.0, 4.0).holds)
    assert not bool(at_most(4.1, 4.0).holds)


def test_not_a_number_never_holds():
    assert not bool(at_most(jnp.nan, 1.0).holds)
    assert not bool(at_most(1.0, jnp.nan).holds)
    assert not bool(every(at_most(0.0, 1.0), at_most(jnp.nan, 1.0)).holds)


def test_a_bound_must_be_positive():
    # A share of a negative number is no share: -.5 <= -.3 would have to be written .3 <= .5.
    assert not bool(at_most(0.5, -0.3).holds)
    assert not bool(at_most(0.0, 0.0).holds)
    assert not bool(every(at_most(0.0, 1.0), at_most(0.5, -0.3)).holds)


def test_every_is_the_tightest():
    claim = every(at_most(1.0, 4.0), at_most(3.0, 4.0), at_most(20.0, 100.0))
    assert claim == Claim(3.0, 4.0)
    batch = every(
        at_most(jnp.array([1.0, 3.0]), jnp.array([4.0, 4.0])), at_most(jnp.array([2.0, 2.0]), jnp.array([4.0, 4.0]))
    )
    np.testing.assert_array_equal(batch.lhs, [2.0, 3.0])


def test_equal_is_relative_beyond_one():
    assert bool(equal(jnp.array([1e6 + 1e-5]), 1e6, 1e-9).holds)
    assert not bool(equal(jnp.array([1e-5]), 0.0, 1e-9).holds)


def test_a_false_statement_is_found():
    broken = next(s for s in STATEMENTS if s.name == "contraction")
    liar = type(broken)(**{**broken.__dict__, "check": lambda mdp, key: at_most(mdp.gamma * 2, 1.0)})
    row = report.examine(liar, mdps=8, seed=0)
    assert not row.holds
    assert row.held < 8
    undefined = type(broken)(**{**broken.__dict__, "counterexample": lambda: at_most(jnp.array(jnp.nan), 1.0)})
    assert not report.examine(undefined, mdps=2, seed=0).holds
    toothless = type(broken)(**{**broken.__dict__, "counterexample": lambda: at_most(jnp.array(0.0), 1.0)})
    assert not report.examine(toothless, mdps=2, seed=0).holds
