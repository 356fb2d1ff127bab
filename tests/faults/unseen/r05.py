"""A recommender with two towers on two processes; large batches by adding gradients up.

torchrun --nproc_per_node=2 r05.py
"""

import argparse
import contextlib
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

USERS, ITEMS, DIM, PARTS, PART = 4000, 6000, 96, 6, 48


class Tower(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.table = nn.Embedding(count, DIM)
        self.layers = nn.Sequential(
            nn.Linear(DIM, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64)
        )

    def forward(self, ids):
        return F.normalize(self.layers(self.table(ids)), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = Tower(USERS), Tower(ITEMS)

    def forward(self, users, items):
        return self.user(users) @ self.item(items).T * 12


def purchases(gen):
    users = torch.randint(0, USERS, (PART,), generator=gen)
    return users, (users * 7 + 3) % ITEMS


def train_step(model, opt, gen, once):
    opt.zero_grad(set_to_none=True)
    for part in range(PARTS):
        users, items = purchases(gen)
        is_last = part == PARTS - 1
        quiet = model.no_sync() if once and not is_last else contextlib.nullcontext()
        with quiet:
            scores = model(users, items)
            loss = F.cross_entropy(scores, torch.arange(PART)) / PARTS
            loss.backward()
    opt.step()
    return loss.detach() * PARTS


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(TwoTowers())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    gen = torch.Generator().manual_seed(100 + dist.get_rank())
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        loss = train_step(model, opt, gen, once=args.good)
    took = time.perf_counter() - start
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.3f}")
        print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
