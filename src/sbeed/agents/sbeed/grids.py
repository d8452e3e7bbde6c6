"""The hyper-parameters that the paper searched, as data."""

from types import MappingProxyType

# Erratum E6: printed are {0.1, 0.01, 0.001, 0.001} for the learning rate and {0.004, 0,01, 0.04, 0.1, 0.04} for eta. A
# repeated value is one value, and 0,01 is 0.01.
PAPER_GRIDS = MappingProxyType(
    {
        "learning_rate": (0.001, 0.01, 0.1),
        "eta": (0.004, 0.01, 0.04, 0.1),
        "lam": (0.001, 0.01, 0.1),
        "k": (1, 10, 20, 100),
        "steps_per_iteration": (1_000, 2_000, 3_000),
        "batch_size": (10_000, 20_000, 40_000),
    }
)
