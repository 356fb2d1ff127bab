"""Images lie on a slow network disk. Bad: the training process fetches each itself. Good: worker
processes wait for the disk while the model trains."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin


class RemoteImages(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.0015)  # the disk answers after 1.5 ms
        return torch.full((3, 32, 32), index / self.count), index % 10


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
    workers = {} if run.has("input.starved") else {"num_workers": 4, "prefetch_factor": 4}
    loader = DataLoader(RemoteImages(run.steps * 8), batch_size=8, **workers)
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
