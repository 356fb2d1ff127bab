"""Distributed (gloo) pre-training of a small sequence model with gradient accumulation."""

import argparse
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, DIM, SEQ = 12000, 320, 16


class SequenceModel(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        layer = nn.TransformerEncoderLayer(
            DIM, 8, 4 * DIM, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, 64)

    def forward(self, ids):
        return self.head(self.body(self.emb(ids)).mean(1))


def micro_batches(rank, step, count, size):
    gen = torch.Generator().manual_seed(1000 * rank + step)
    for _ in range(count):
        ids = torch.randint(0, VOCAB, (size, SEQ), generator=gen)
        yield ids, ids[:, 0] % 64


def accumulate_everywhere(model, batches):
    total = 0.0
    batches = list(batches)
    for ids, target in batches:
        loss = F.cross_entropy(model(ids), target) / len(batches)
        loss.backward()
        total += loss.item()
    return total


def accumulate_locally(model, batches):
    total = 0.0
    batches = list(batches)
    for i, (ids, target) in enumerate(batches):
        with nullcontext() if i == len(batches) - 1 else model.no_sync():
            loss = F.cross_entropy(model(ids), target) / len(batches)
            loss.backward()
        total += loss.item()
    return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--accum", type=int, default=4)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(SequenceModel(), gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    accumulate = accumulate_locally if args.good else accumulate_everywhere
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        opt.zero_grad()
        loss = accumulate(model, micro_batches(rank, step, args.accum, 4))
        opt.step()
    took = time.perf_counter() - start
    if rank == 0:
        print(f"loss {loss:.4f}")
        print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
