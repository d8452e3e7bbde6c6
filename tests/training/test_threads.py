"""LAPACK's own threads."""

import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_info

from sbeed.training.threads import lapack_on_one_thread


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_lapack_has_one_thread_inside_and_as_many_as_before_outside():
    before = threads()
    with lapack_on_one_thread():
        assert threads() == [1] * len(before)
    assert threads() == before
