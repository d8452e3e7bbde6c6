"""Limit the threads of LAPACK."""

from threadpoolctl import threadpool_limits


def lapack_on_one_thread() -> threadpool_limits:
    """In this context, XLA's calls of LAPACK on a CPU use one thread.

    LAPACK's own threads spin beside XLA's: a Cholesky of 500 x 500 takes ten times as long with them, and hundreds of
    times if cores are shared. Its result also depends on their number.
    """
    import scipy.linalg  # noqa: F401  XLA calls its LAPACK, which must be loaded before it can be limited

    return threadpool_limits(limits=1, user_api="blas")
