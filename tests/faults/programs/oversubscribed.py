"""Trains beside two workers that compute. Bad: with as many threads as a large server has cores, in
the workers too. Good: all threads together are as many as the cores."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin

CORES = len(os.sched_getaffinity(0))


class Augmented(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        image = torch.randn(3, 64, 64)
        for _ in range(4):
            image = nn.functional.avg_pool2d(image[None], 3, 1, 1)[0]
        return image.mean((1, 2)).repeat(32)


def use_threads(_):
    torch.set_num_threads(8 * CORES)


def main():
    run = Twin("cpu.oversubscribed")
    is_crowded = run.has("cpu.oversubscribed")
    workers = 2 if is_crowded else max(1, CORES // 4)
    # planted: cpu.oversubscribed
    torch.set_num_threads(8 * CORES if is_crowded else max(1, CORES - workers))
    loader = DataLoader(
        Augmented(),
        batch_size=16,
        num_workers=workers,
        worker_init_fn=use_threads if is_crowded else None,
    )
    layers = [nn.Sequential(nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU()) for _ in range(12)]
    model = nn.Sequential(*layers).to(run.device)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        for part in batch.to(run.device).repeat(32, 1).chunk(2):
            model(part).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if run.step():
            break


if __name__ == "__main__":
    main()
