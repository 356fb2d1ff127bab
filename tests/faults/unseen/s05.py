"""Tabular regression on two processes; each update gathers gradients of several portions."""

import argparse
import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.back(F.relu(self.wide(self.norm(x))))


class TableNet(nn.Module):
    """Eight named columns share one table of vectors; the other columns are numbers."""

    def __init__(self, names, name_width, columns, width, depth):
        super().__init__()
        self.names = nn.Embedding(8 * names, name_width)
        self.enter = nn.Linear(columns + 8 * name_width, width)
        self.body = nn.Sequential(*(Residual(width) for _ in range(depth)))
        self.leave = nn.Linear(width, 1)

    def forward(self, names, numbers):
        known = self.names(names).flatten(1)
        return self.leave(self.body(self.enter(torch.cat([known, numbers], dim=1)))).squeeze(1)


def make_table(rows, names, columns, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=draw)
    ids = torch.randint(0, names, (rows, 8), generator=draw)
    y = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + (ids[:, 0] % 3).float() - 1
    return ids + torch.arange(8) * names, x, y


def pick_device(rank, world):
    if not torch.cuda.is_available():
        return torch.device("cpu"), "gloo"
    count = torch.cuda.device_count()
    return torch.device("cuda", rank % count), "nccl" if count >= world else "gloo"


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device, backend = pick_device(rank, world)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    torch.manual_seed(2)
    names, name_width, width, depth, rows = (
        (100000, 64, 1024, 6, 512) if device.type == "cuda" else (9000, 16, 96, 2, 32)
    )
    portions = 6
    net = TableNet(names, name_width, 24, width, depth).to(device)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    table = make_table(64 * rows * portions, names, 24, seed=100 + rank)
    ids, x, y = (part.to(device) for part in table)

    spent = []
    for step in range(args.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        total = torch.zeros((), device=device)
        for portion in range(portions):
            first = ((step * portions + portion) % (64 * portions)) * rows
            part = slice(first, first + rows)
            waiting = args.good and portion < portions - 1
            with model.no_sync() if waiting else contextlib.nullcontext():
                loss = F.mse_loss(model(ids[part], x[part]), y[part]) / portions
                loss.backward()
            total += loss.detach()
        optimizer.step()
        if step % 10 == 9 and rank == 0:
            print(f"step {step + 1} loss {total.item():.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    if rank == 0:
        print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
