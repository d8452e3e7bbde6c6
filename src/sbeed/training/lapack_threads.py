"""Who may use how many threads."""

from threadpoolctl import threadpool_limits


def lapack_on_one_thread() -> threadpool_limits:
    """While it is entered, XLA's calls of LAPACK on a CPU use no threads of LAPACK's own.

    They spin beside XLA's: a Cholesky of 500 x 500 then takes ten times as long, and hundreds if cores are shared. And
    what it computes depends on their number.
    """
    import scipy.linalg  # noqa: F401  whose LAPACK it is, which must be loaded before it can be limited

    return threadpool_limits(limits=1, user_api="blas")
