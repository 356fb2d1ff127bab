"""Looks at held-out data. Bad: all of it every fifth step, with Python's own statistics. Good: once
in a long while."""

import statistics

import torch
from torch import nn
from twin import Twin


def evaluate(model, data):
    with torch.no_grad():
        # planted: host.periodic_stall
        errors = [float(model(row).square().mean()) for row in data]
    ordered = sorted(errors * 50)
    return statistics.fmean(ordered), statistics.median(ordered)


def main():
    run = Twin("host.periodic_stall", steps=60)
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64)).to(run.device)
    optimizer = torch.optim.Adam(model.parameters())
    held_out = torch.randn(400, 64, device=run.device)
    every = 5 if run.has("host.periodic_stall") else 100_000
    number = 0
    while True:
        number += 1
        loss = model(torch.randn(256, 64, device=run.device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % every == 0:
            evaluate(model, held_out)
        if run.step():
            break


if __name__ == "__main__":
    main()
