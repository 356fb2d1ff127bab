"""Trains on samples that come from a slow disk and are packed: most of a step is waiting for them.

    starved_program.py [--steps N] [--workers N] [--prefetch N] [--persistent] [--pin]

The last line is `step_ms N`: the median of all steps behind the first ones.
"""

import argparse
import statistics
import time
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COLUMNS = 400
WARM_STEPS = 12
DISK_SECONDS = 0.002


class Packed(Dataset):
    """Each sample waits for the disk, and is unpacked when it has come."""

    def __init__(self):
        texts = [",".join(str((i * 31 + j) % 97) for j in range(COLUMNS)) for i in range(64)]
        self.samples = [zlib.compress(text.encode()) for text in texts]

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        time.sleep(DISK_SECONDS)
        text = zlib.decompress(self.samples[index % len(self.samples)]).decode()
        return torch.tensor([float(word) / 97 for word in text.split(",")])


def loader_of(options):
    more = {}
    if options.workers:
        more = {"prefetch_factor": options.prefetch, "persistent_workers": options.persistent}
    return DataLoader(
        Packed(), 8, shuffle=True, num_workers=options.workers, pin_memory=options.pin, **more
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--pin", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(COLUMNS, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    ends = []
    for batch in loader_of(options):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
        if len(ends) == options.steps:
            break
    # Batches of several workers come in bursts: the mean of what is behind the first ones.
    timed = ends[min(WARM_STEPS, len(ends) // 2) :]
    quarters = [timed[i * len(timed) // 4 : (i + 1) * len(timed) // 4] for i in range(4)]
    means = [(q[-1] - q[0]) / (len(q) - 1) for q in quarters if len(q) > 1]
    print(f"step_ms {statistics.median(means) * 1e3:.4f}")


if __name__ == "__main__":
    main()
