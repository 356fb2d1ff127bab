"""Keeps losses for a plot. Bad: with the graph of each step. Good: their values, on the device."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("memory.growth")
    torch.set_float32_matmul_precision("high")
    width = run.pick(256, 1024)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    model.to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    while True:
        batch = torch.randn(run.pick(1024, 4096), width, device=run.device)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=run.has("memory.growth"))
        optimizer.step()
        # planted: memory.growth
        history.append(loss if run.has("memory.growth") else loss.detach())
        if run.step():
            break


if __name__ == "__main__":
    main()
