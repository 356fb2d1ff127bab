"""Keeps checkpoints. Bad: writes all of the model every sixth step and waits for the disk. Good: a
few times in a run, not in these steps."""

import os
import tempfile

import torch
from torch import nn
from twin import Twin

EVERY = 6


def save(model, folder):
    path = os.path.join(folder, "checkpoint.pt")
    # planted: host.periodic_stall
    with open(path, "wb") as file:
        torch.save(model.state_dict(), file)
        file.flush()
        os.fsync(file.fileno())


def main():
    run = Twin("host.periodic_stall", steps=60)
    words_in = nn.EmbeddingBag(120_000, 64, sparse=True)
    model = nn.Sequential(words_in, nn.Linear(64, 32), nn.Linear(32, 2))
    model.to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    words = torch.randint(0, 120_000, (64, 100), device=run.device)
    every = EVERY if run.has("host.periodic_stall") else 100_000
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            number += 1
            loss = model(words).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % every == 0:
                save(model, folder)
            if run.step():
                break


if __name__ == "__main__":
    main()
