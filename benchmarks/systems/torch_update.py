"""The paper-sized update in torch, the same arithmetic as ours, with every forward pass that can be shared shared.

torch_update SETTING ARRAYS CORES [--compile]
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import count as naturals

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.processes import Answer, serve


def network(arrays: dict[str, np.ndarray], name: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i in naturals():
        if f"{name}_W{i}" not in arrays:
            return nn.Sequential(*layers[:-1])  # no tanh after the last
        W, b = arrays[f"{name}_W{i}"], arrays[f"{name}_b{i}"]
        linear = nn.Linear(*W.shape)
        linear.load_state_dict({"weight": torch.from_numpy(W.T.copy()), "bias": torch.from_numpy(b)})
        layers += [linear, nn.Tanh()]
    raise AssertionError


def targets(batch: dict[str, Tensor], v_next: Tensor, *, k: int, gamma: float, lam: float) -> Tensor:
    """k-step targets of every start; a step is the map x -> c + g x, and one that ends its path has g = 0.   [S, L]"""
    last = batch["last"] | batch["terminated"]
    last[:, -1] = True
    bootstrap = torch.where(batch["terminated"], 0.0, v_next)
    c = batch["reward"] - lam * batch["log_pi"] + gamma * torch.where(last, bootstrap, 0.0)
    g = torch.where(last, 0.0, gamma)
    length = c.shape[1]
    # Past the segment's end stands its last step again, after which nothing counts.
    c, g, x = (torch.cat([y, y[:, -1:].expand(-1, k - 1)], 1) for y in (c, g, v_next))
    x = x[:, k - 1 : k - 1 + length]
    for i in reversed(range(k)):
        x = c[:, i : i + length] + g[:, i : i + length] * x
    return x


class Update:
    def __init__(self, setting: dict, arrays: dict[str, np.ndarray], wrap: Callable[[Callable], Callable]):
        self.setting = setting
        self.data = {
            name: torch.from_numpy(arrays[name])
            for name in ("obs", "action", "reward", "next_obs", "terminated", "last", "log_pi")
        }
        self.V, self.V_slow, self.dual = network(arrays, "V"), network(arrays, "V"), network(arrays, "dual")
        self.opt = {
            name: torch.optim.Adam(net.parameters(), lr=setting["step_size"], fused=True)
            for name, net in (("V", self.V), ("dual", self.dual))
        }
        self.look, self.nu = wrap(self.look), wrap(self.nu)
        self.dual_loss, self.V_loss = wrap(self.dual_loss), wrap(self.V_loss)

    def look(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """V at every start, and its target; both with V's gradient."""
        kappa = self.setting["kappa"]
        with torch.no_grad():
            slow = self.V_slow(batch["next_obs"])[..., 0]
        mixed = kappa * self.V(batch["next_obs"])[..., 0] + (1 - kappa) * slow
        delta = targets(batch, mixed, **{name: self.setting[name] for name in ("k", "gamma", "lam")})
        return self.V(batch["obs"])[..., 0], delta

    def nu(self, x: Tensor) -> Tensor:
        return self.dual(x)[..., 0]

    def dual_loss(self, x: Tensor, goal: Tensor) -> Tensor:
        return ((goal - self.dual(x)[..., 0]) ** 2).mean()

    def V_loss(self, v: Tensor, delta: Tensor, nu: Tensor) -> Tensor:
        return ((delta - v) ** 2).mean() - self.setting["eta"] * ((delta - (v + nu)) ** 2).mean()

    def __call__(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        index = starts[:, None] + torch.arange(self.setting["segment"])
        batch = {name: column[index] for name, column in self.data.items()}
        v, delta = self.look(batch)
        x = torch.cat([batch["obs"], batch["action"]], -1)
        dual_loss = self.dual_loss(x, (delta - v).detach())
        self._step("dual", dual_loss)
        with torch.no_grad():
            nu = self.nu(x)
        self._step("V", self.V_loss(v, delta, nu))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.V_slow.parameters()), list(self.V.parameters()), self.setting["slow_rate"])
        return ((delta - v) ** 2).mean().detach(), dual_loss.detach()

    def _step(self, name: str, loss: Tensor) -> None:
        self.opt[name].zero_grad()
        loss.backward()
        self.opt[name].step()


def main() -> None:
    setting, arrays = json.loads(sys.argv[1]), dict(np.load(sys.argv[2]))
    torch.set_num_threads(int(sys.argv[3]))
    torch.manual_seed(0)
    wrap = torch.compile if "--compile" in sys.argv else lambda function: function
    segments = setting["batch"] // setting["segment"]
    update = Update(setting, arrays, wrap)
    room = len(arrays["reward"]) - setting["segment"] + 1

    def updates() -> Answer:
        begin = time.perf_counter()
        for _ in range(setting["updates"]):
            update(torch.randint(room, (segments,)))
        return {"seconds": (time.perf_counter() - begin) / setting["updates"]}

    def losses(batches: list[list[int]]) -> Answer:
        """To be asked first, for these are the network's first steps."""
        return {"losses": [[float(loss) for loss in update(torch.tensor(starts))] for starts in batches]}

    def matmul(size: int) -> Answer:
        a, rates = torch.randn(size, size), []
        for _ in range(4):
            begin = time.perf_counter()
            a @ a
            rates.append(size**3 / (time.perf_counter() - begin))
        return {"rate": max(rates)}

    serve(
        {"updates": updates, "losses": losses, "matmul": matmul},
        versions=f"torch {torch.__version__}",
        threads=torch.get_num_threads(),
    )


if __name__ == "__main__":
    main()
