"""Forecast the load of many meters, each with a small network of its own, with AdamW."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

METERS, HISTORY, AHEAD = 60, 48, 6


class Meter(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.a = nn.Linear(HISTORY, width)
        self.norm = nn.LayerNorm(width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, AHEAD)

    def forward(self, x):
        h = F.relu(self.a(x))
        return self.c(F.relu(self.b(self.norm(h))))


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.meters = nn.ModuleList(Meter() for _ in range(METERS))

    def forward(self, x):
        return torch.stack([meter(x[:, i]) for i, meter in enumerate(self.meters)], 1)


def curves(batch, gen):
    shift = torch.rand(batch, METERS, 1, generator=gen) * 6.28
    hours = torch.arange(HISTORY + AHEAD) * 6.28 / 24
    noise = 0.05 * torch.randn(batch, METERS, HISTORY + AHEAD, generator=gen)
    load = torch.sin(hours + shift) + noise
    return load[..., :HISTORY], load[..., HISTORY:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = Grid()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True if args.good else None)
    batches = [curves(16, gen) for _ in range(8)]
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        past, future = batches[step % len(batches)]
        loss = F.smooth_l1_loss(model(past), future)
        opt.zero_grad()
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(f"loss {loss.item():.4f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
