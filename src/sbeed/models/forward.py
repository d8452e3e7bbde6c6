"""Forward passes on plain arrays, for the device and the host alike: `xp` is jax.numpy or numpy.

Without jax in it, so that a process that only acts need not load it.
"""

from collections.abc import Callable, Sequence
from operator import matmul
from typing import Any

AnyArray = Any  # of jax on the device or of numpy on the host
Numpy = Any  # the module numpy or jax.numpy
Product = Callable[[AnyArray, AnyArray], AnyArray]

ACTIVATIONS: dict[str, Callable[[AnyArray, Numpy], AnyArray]] = {
    "relu": lambda x, xp: xp.maximum(x, 0),
    "tanh": lambda x, xp: xp.tanh(x),
    "sin": lambda x, xp: xp.sin(x),
}


def on_rows(f: Callable[[AnyArray], AnyArray], x: AnyArray) -> AnyArray:
    """f of [N, n] -> [N, m] for any number of leading axes.

    XLA's products over two leading axes take half as long again on a CPU, and it finds that two parts of a program
    evaluate the same thing only where both spell it alike.
    """
    return f(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)


def hidden(
    weights: Sequence[AnyArray],
    biases: Sequence[AnyArray],
    x: AnyArray,
    *,
    activation: str,
    layer_norm: bool,
    xp: Numpy,
    product: Product = matmul,
) -> AnyArray:
    """act(... act(x W_1 + b_1) ...): every layer has an activation here.   [..., in] -> [..., width]"""
    act = ACTIVATIONS[activation]
    for W, b in zip(weights, biases):
        x = product(x, W) + b
        if layer_norm:
            x = x - x.mean(-1, keepdims=True)
            x = x / xp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        x = act(x, xp)
    return x


def mlp(
    weights: Sequence[AnyArray],
    biases: Sequence[AnyArray],
    x: AnyArray,
    *,
    activation: str,
    layer_norm: bool,
    xp: Numpy,
    product: Product = matmul,
) -> AnyArray:
    """act(... act(x W_1 + b_1) ...) W_n + b_n, with LayerNorm before each activation if asked for.

    [..., in] -> [..., out]
    """
    features = hidden(
        weights[:-1], biases[:-1], x, activation=activation, layer_norm=layer_norm, xp=xp, product=product
    )
    return features @ weights[-1] + biases[-1]


EPSILON = 1e-5


def batch_norm(z: AnyArray, mean: AnyArray, var: AnyArray, gain: AnyArray, shift: AnyArray, xp: Numpy) -> AnyArray:
    """(z - mean) / std * gain + shift, by statistics of other rows.   [..., width] -> [..., width]"""
    return (z - mean) * (gain / xp.sqrt(var + EPSILON)) + shift


def row_norm(z: AnyArray, norm: str, gain: AnyArray, shift: AnyArray, xp: Numpy) -> AnyArray:
    """Each row over its own deviation ("layer") or its root mean square ("rms"), times gain, plus shift."""
    if norm == "layer":
        z = z - z.mean(-1, keepdims=True)
    return z / xp.sqrt((z * z).mean(-1, keepdims=True) + EPSILON) * gain + shift


def mean_and_log_std(outputs: AnyArray, low: float, high: float, xp: Numpy) -> tuple[AnyArray, AnyArray]:
    """The halves of a network's outputs, the second bounded to (low, high).   [..., 2 A] -> [..., A], [..., A]"""
    actions = outputs.shape[-1] // 2
    # A smooth clip: its gradient never vanishes altogether, so a std at the edge can come back.
    middle, half = (high + low) / 2, (high - low) / 2
    return outputs[..., :actions], middle + half * xp.tanh(outputs[..., actions:])


def standardize(mean: AnyArray, inverse_std: AnyArray, x: AnyArray, xp: Numpy) -> AnyArray:
    """(x - mean) / std, cut at +-10: an observation never seen before must not throw a network."""
    return xp.minimum(xp.maximum((x - mean) * inverse_std, -10), 10)
