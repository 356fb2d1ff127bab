#!/usr/bin/env python3
"""Trains a residual network on the GPU with a DataLoader that is too slow; `--fixed` repairs it.

Each image is compressed, and half a millisecond away. With `num_workers=0` the training thread
fetches and decodes them one after the other while the GPU has nothing to do. With eight workers
(`--fixed`) the next batch is ready before the GPU is. Nothing else differs.

The last line is `median_step_ms N`. Steps are timed in blocks with the GPU synchronised at both
ends, since a synchronisation in each step would change what overlaps. Without a GPU a smaller
network trains on the CPU, with two workers: that tries the scripts, and proves nothing.
"""

import argparse
import statistics
import time
import zlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

CLASSES = 8
IMAGES = 128
WARM_STEPS = 10
STEPS_PER_BLOCK = 5


@dataclass
class Size:
    image: int
    batch: int
    width: int
    blocks: tuple
    workers: int
    round_trip_s: float


ON_GPU = Size(224, 64, 64, (3, 4, 6, 3), 8, 0.0005)
ON_CPU = Size(32, 16, 8, (1, 1, 1, 1), 2, 0.002)


class FarImages(Dataset):
    """Stripes in noise, compressed; their direction is the class."""

    def __init__(self, size):
        self._size = size
        self._stored = [self._make(index) for index in range(IMAGES)]

    def _make(self, index):
        generator = torch.Generator().manual_seed(index)
        angle = torch.tensor(index % CLASSES * torch.pi / CLASSES)
        axis = torch.linspace(-1, 1, self._size.image)
        wave = torch.cos(angle) * axis[None, :] + torch.sin(angle) * axis[:, None]
        noise = torch.randint(-48, 48, (3, *wave.shape), generator=generator)
        image = (torch.sin(wave * 20) * 64 + 128 + noise).clamp(0, 255).to(torch.uint8)
        return zlib.compress(image.numpy().tobytes(), 1)

    def __len__(self):
        return IMAGES

    def __getitem__(self, index):
        time.sleep(self._size.round_trip_s)
        pixels = bytearray(zlib.decompress(self._stored[index]))
        image = torch.frombuffer(pixels, dtype=torch.uint8)
        return image.view(3, self._size.image, self._size.image), index % CLASSES


class Block(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


def make_model(size):
    layers = [
        nn.Conv2d(3, size.width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(size.width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels_in = size.width
    for stage, count in enumerate(size.blocks):
        channels = size.width << stage
        for number in range(count):
            layers.append(Block(channels_in, channels, 2 if stage and not number else 1))
            channels_in = channels
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, CLASSES)]
    return nn.Sequential(*layers, *head)


def make_loader(size, options):
    dataset = FarImages(size)
    sampler = RandomSampler(
        dataset,
        replacement=True,
        num_samples=options.steps * size.batch,
        generator=torch.Generator().manual_seed(0),
    )
    if not options.fixed:
        return DataLoader(dataset, batch_size=size.batch, sampler=sampler, num_workers=0)
    return DataLoader(
        dataset,
        batch_size=size.batch,
        sampler=sampler,
        num_workers=size.workers,
        prefetch_factor=4,
    )


def synchronise(device):
    if device == "cuda":
        torch.cuda.synchronize()


def train(size, device, options):
    """Returns the seconds of one step, for each block of steps after the first ones."""
    loader = make_loader(size, options)
    model = make_model(size).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step_s = []
    began = None
    for number, (images, labels) in enumerate(loader, start=1):
        images = images.to(device).float().div_(255).sub_(0.5)
        labels = labels.to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if number >= WARM_STEPS and (number - WARM_STEPS) % STEPS_PER_BLOCK == 0:
            synchronise(device)
            now = time.perf_counter()
            if began is not None:
                step_s.append((now - began) / STEPS_PER_BLOCK)
            began = now
    print(f"loss {loss.item():.6f}")
    return step_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--fixed", action="store_true", help="load in worker processes")
    options = parser.parse_args()
    if options.steps < WARM_STEPS + STEPS_PER_BLOCK:
        parser.error(f"--steps must be {WARM_STEPS + STEPS_PER_BLOCK} or more")
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)
    step_s = train(ON_GPU if device == "cuda" else ON_CPU, device, options)
    print(f"device {torch.cuda.get_device_name() if device == 'cuda' else 'cpu'}")
    print(f"median_step_ms {statistics.median(step_s) * 1e3:.3f}")


if __name__ == "__main__":
    main()
