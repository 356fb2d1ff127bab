"""Images lie on a slow network disk. Bad: the training process fetches each when it needs it. Good:
it has fetched them once, before training."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin

IMAGES = 64


def fetch(index):
    # planted: input.starved
    time.sleep(0.003)  # the disk answers after 3 ms
    return torch.full((3, 32, 32), index / IMAGES), index % 10


class RemoteImages(Dataset):
    def __init__(self, is_kept):
        self.kept = [fetch(index) for index in range(IMAGES)] if is_kept else None

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        index %= IMAGES
        return self.kept[index] if self.kept else fetch(index)


def main():
    run = Twin("input.starved")
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 32 * 32, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    ).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(RemoteImages(is_kept=not run.has("input.starved")), batch_size=8)
    for images, labels in loader:
        images, labels = images.to(run.device), labels.to(run.device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
