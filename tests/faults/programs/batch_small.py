"""Trains on the same examples in each step. Bad: in 32 batches of a few, whose gradients are added
up. Good: in one batch."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("batch.too_small", steps=30)
    torch.set_float32_matmul_precision("high")
    width = run.pick(64, 2048)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(6))).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    examples = torch.randn(run.pick(64, 8192), width, device=run.device)
    parts = 32 if run.has("batch.too_small") else 1
    while True:
        optimizer.zero_grad()
        for part in examples.chunk(parts):
            (model(part).square().mean() / parts).backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
