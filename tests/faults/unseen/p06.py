"""Click-through-rate model (DeepFM style): many categorical fields, one embedding table each."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = [
    400,
    900,
    60,
    12,
    3000,
    1500,
    7,
    2400,
    310,
    95,
    5000,
    18,
    720,
    4200,
    33,
    1100,
    260,
    2800,
    50,
    640,
    9,
    3600,
    180,
    1300,
    75,
    2000,
    24,
    5200,
    410,
    140,
    850,
    3300,
]


class DeepFM(nn.Module):
    def __init__(self, sizes, dense=13, dim=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in sizes)
        self.linear = nn.ModuleList(nn.Embedding(n, 1) for n in sizes)
        self.dense = nn.Linear(dense, dim)
        width = dim * (len(sizes) + 1)
        self.deep = nn.Sequential(
            nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.01)
        for table in self.linear:
            nn.init.zeros_(table.weight)

    def forward(self, cats, nums):
        emb = [table(cats[:, i]) for i, table in enumerate(self.tables)]
        emb.append(self.dense(nums))
        stacked = torch.stack(emb, dim=1)
        total = stacked.sum(1)
        fm = 0.5 * (total.square() - stacked.square().sum(1)).sum(1)
        first = torch.cat([table(cats[:, i]) for i, table in enumerate(self.linear)], 1).sum(1)
        return self.deep(stacked.flatten(1)).squeeze(1) + fm + first


class ClickLog:
    """In-memory log with zipf-like popularity per field."""

    def __init__(self, rows, seed=11):
        rng = np.random.default_rng(seed)
        cols = [np.minimum(rng.zipf(1.3, rows) - 1, n - 1) for n in SIZES]
        self.cats = torch.from_numpy(np.stack(cols, 1))
        self.nums = torch.from_numpy(rng.standard_normal((rows, 13)).astype(np.float32))
        self.clicks = torch.from_numpy((rng.random(rows) < 0.2).astype(np.float32))

    def batches(self, size, count):
        rows = self.cats.shape[0]
        for i in range(count):
            lo = (i * size) % (rows - size + 1)
            yield self.cats[lo : lo + size], self.nums[lo : lo + size], self.clicks[lo : lo + size]


def make_optimizer(model, good):
    if good:
        return torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    log = ClickLog(20000)
    model = DeepFM(SIZES)
    opt = make_optimizer(model, args.good)
    start, running = time.perf_counter(), torch.zeros(())
    for step, (cats, nums, clicks) in enumerate(log.batches(256, args.steps)):
        if step == 10:
            start = time.perf_counter()
        loss = F.binary_cross_entropy_with_logits(model(cats, nums), clicks)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        running += loss.detach()
    took = time.perf_counter() - start
    print(f"mean loss {running.item() / args.steps:.4f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
