"""Three faults at once: samples come one by one from a slow disk, each step waits for a dashboard,
and the losses are kept with their graphs."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin


def read(index):
    # planted: input.starved
    time.sleep(0.004)
    return torch.full((80, 16), float(index))


class Recordings(Dataset):
    def __init__(self, is_kept):
        self.kept = [read(index) for index in range(32)] if is_kept else None

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return self.kept[index % 32] if self.kept else read(index % 32)


def post(values):
    # planted: host.python_gap
    time.sleep(0.010)
    return values


def main():
    run = Twin("input.starved", "host.python_gap", "memory.growth")
    loader = DataLoader(Recordings(is_kept=not run.has("input.starved")), batch_size=8)
    model = nn.GRU(16, 96, batch_first=True).to(run.device)
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for number, batch in enumerate(loader):
        loss = model(batch.to(run.device))[0].square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=run.has("memory.growth"))
        optimizer.step()
        # planted: memory.growth
        losses.append(loss if run.has("memory.growth") else loss.detach())
        if run.has("host.python_gap") or number % 20 == 0:
            post(losses[-1:])
        if run.step():
            break


if __name__ == "__main__":
    main()
