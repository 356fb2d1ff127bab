"""Tabular regression with a wide residual MLP; the run can be resumed from its last checkpoint."""

import argparse
import os
import shutil
import tempfile
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

FEATURES, WIDTH, EVERY = 64, 1024, 12


class ResidualMLP(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.inp = nn.Linear(FEATURES, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers))
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = self.inp(x)
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = x + F.gelu(layer(norm(x)))
        return self.out(x).squeeze(-1)


class Checkpointer:
    def __init__(self, folder, background):
        self.folder, self.background = folder, background
        self.thread, self.buffer = None, None

    def _write(self, state, step):
        path = os.path.join(self.folder, "last.pt")
        with open(path + ".tmp", "wb") as f:
            torch.save(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(path + ".tmp", path)

    def _snapshot(self, model, opt):
        tensors = list(model.parameters())
        for values in opt.state.values():
            tensors += [v for v in values.values() if torch.is_tensor(v)]
        if self.buffer is None:
            self.buffer = [torch.empty_like(t, requires_grad=False) for t in tensors]
        with torch.no_grad():
            torch._foreach_copy_(self.buffer, tensors)
        return self.buffer

    def save(self, model, opt, step):
        if not self.background:
            self._write({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, step)
            return
        if self.thread is not None and self.thread.is_alive():
            return
        state = {"tensors": self._snapshot(model, opt), "step": step}
        self.thread = threading.Thread(target=self._write, args=(state, step))
        self.thread.start()

    def close(self):
        if self.thread is not None:
            self.thread.join()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    x = torch.randn(8192, FEATURES)
    y = x[:, :8].sin().sum(1) + 0.1 * torch.randn(8192)
    model = ResidualMLP()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    folder = tempfile.mkdtemp(prefix="ckpt")
    saver = Checkpointer(folder, background=args.good)
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        rows = torch.arange(step * 96, step * 96 + 96) % 8192
        loss = F.mse_loss(model(x[rows]), y[rows])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if (step + 1) % EVERY == 0:
            saver.save(model, opt, step)
    took = time.perf_counter() - start
    saver.close()
    shutil.rmtree(folder, ignore_errors=True)
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
