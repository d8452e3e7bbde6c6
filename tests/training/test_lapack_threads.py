"""LAPACK's own threads."""

import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_info, threadpool_limits

from sbeed.training.lapack_threads import lapack_on_one_thread


def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_lapack_has_one_thread_inside_and_as_many_as_before_outside():
    pools = len(threads())
    with threadpool_limits(2, "blas"):  # the tests' own have one
        with lapack_on_one_thread():
            assert threads() == [1] * pools
        assert threads() == [2] * pools
