"""Many short epochs. Bad: each starts its workers anew, and they open the archive first. Good: the
workers stay."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin

EPOCH_STEPS = 10


class Archive(Dataset):
    def __init__(self):
        self.index = None

    def __len__(self):
        return EPOCH_STEPS * 4

    def __getitem__(self, at):
        if self.index is None:
            time.sleep(0.4)  # the worker opens the archive
            self.index = torch.arange(64.0)
        return self.index + at


def main():
    run = Twin("input.starved", steps=50)
    torch.set_float32_matmul_precision("high")
    loader = DataLoader(
        Archive(), batch_size=4, num_workers=1, persistent_workers=not run.has("input.starved")
    )
    width = run.pick(512, 2048)
    model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width)).to(run.device)
    optimizer = torch.optim.Adam(model.parameters())
    is_over = False
    while not is_over:
        # planted: input.starved
        for batch in loader:
            views = batch.to(run.device).repeat(run.pick(320, 65536), 1)
            loss = model(views).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            is_over = run.step()
            if is_over:
                break


if __name__ == "__main__":
    main()
