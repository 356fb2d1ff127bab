"""Measurements come as compressed text. Bad: the dataset unpacks and parses a sample each time it
is asked for. Good: once, before training."""

import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin

COLUMNS = 2000


def packed(index):
    return zlib.compress(",".join(str((index * 31 + i) % 97) for i in range(COLUMNS)).encode())


def parse(data):
    # planted: input.starved
    values = [float(word) / 97 for word in zlib.decompress(data).decode().split(",")]
    mean = sum(values) / len(values)
    return torch.tensor([value - mean for value in values])


class Measurements(Dataset):
    def __init__(self, count, ahead):
        self.samples = [packed(index) for index in range(count)]
        if ahead:
            self.samples = [parse(sample) for sample in self.samples]
        self.ahead = ahead

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        sample = self.samples[index % len(self.samples)]
        return sample if self.ahead else parse(sample)


def main():
    run = Twin("input.starved")
    data = Measurements(64, ahead=not run.has("input.starved"))
    model = nn.Sequential(nn.Linear(COLUMNS, 64), nn.ReLU(), nn.Linear(64, 1)).to(run.device)
    optimizer = torch.optim.Adam(model.parameters())
    for batch in DataLoader(data, batch_size=16):
        loss = model(batch.to(run.device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
