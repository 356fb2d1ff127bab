#!/usr/bin/env python3
"""Trains a small image classifier whose DataLoader is the bottleneck; `--fixed` repairs it.

Each image is a file that this program makes once. Reading one is as slow as reading it from object
storage: a round trip of a few milliseconds that uses no CPU, then the file is decoded and
augmented. With `num_workers=0` the model waits for the sum of that, batch after batch. With two
workers (`--fixed`) the round trips overlap the training, and next to nothing is left to wait for.

    kscope run examples/train_images.py
    python3 examples/train_images.py --fixed

The last line is `median_step_ms N`: the median over the steps after the first ones.
"""

import argparse
import statistics
import tempfile
import time
import zlib
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

CLASSES = 4
IMAGE_SIZE = 40
IMAGES = 256
ROUND_TRIP_S = 0.005  # to storage and back, for one image
WARM_STEPS = 10  # not counted: workers start, memory is allocated, caches fill


def make_image(index, generator):
    """Stripes whose direction is the class, in noise: learnable, but not at once."""
    label = index % CLASSES
    angle = torch.tensor(label * torch.pi / CLASSES)
    axis = torch.linspace(-1, 1, IMAGE_SIZE)
    wave = torch.cos(angle) * axis[None, :] + torch.sin(angle) * axis[:, None]
    stripes = torch.sin(wave * 12 + torch.rand(1, generator=generator) * 6.28)
    noise = torch.randn(3, IMAGE_SIZE, IMAGE_SIZE, generator=generator)
    image = (stripes * 40 + noise * 60 + 128).clamp(0, 255).to(torch.uint8)
    return image, label


def make_files(folder, seed):
    """One compressed file per image; the label is its first byte."""
    generator = torch.Generator().manual_seed(seed)
    for index in range(IMAGES):
        image, label = make_image(index, generator)
        pixels = bytes(image.flatten().tolist())
        (folder / f"{index:05}.img").write_bytes(bytes([label]) + zlib.compress(pixels, 6))


class RemoteImages(Dataset):
    """Images in storage that is far away."""

    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.img"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        time.sleep(ROUND_TRIP_S)
        content = self.paths[index].read_bytes()
        pixels = torch.frombuffer(bytearray(zlib.decompress(content[1:])), dtype=torch.uint8)
        image = pixels.view(3, IMAGE_SIZE, IMAGE_SIZE).float().div_(255)
        if index % 2:  # augmentation by a fixed rule, so that every run sees the same images
            image = image.flip(2).roll(shifts=1, dims=1)
        return image.sub_(0.5).div_(0.25), content[0]


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 128, 3, padding=1, stride=2),
        nn.BatchNorm2d(128),
        nn.ReLU(),
        nn.Conv2d(128, 128, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128 * 16, CLASSES),
    )


def make_loader(dataset, options):
    sampler = RandomSampler(
        dataset,
        replacement=True,
        num_samples=options.steps * options.batch,
        generator=torch.Generator().manual_seed(options.seed),
    )
    if not options.fixed:
        return DataLoader(dataset, batch_size=options.batch, sampler=sampler, num_workers=0)
    return DataLoader(
        dataset,
        batch_size=options.batch,
        sampler=sampler,
        num_workers=2,
        persistent_workers=True,
        prefetch_factor=4,
    )


def train(loader, options):
    """Returns the seconds of each step, from the end of one to the end of the next."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
    step_s = []
    before = time.perf_counter()
    for number, (images, labels) in enumerate(loader, start=1):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        step_s.append(now - before)
        before = now
        if number % 20 == 0 or number == options.steps:
            print(f"step {number:4}  loss {loss.item():.6f}", flush=True)
    return step_s


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", action="store_true", help="load in two worker processes")
    return parser.parse_args()


def main():
    options = parse_options()
    # One thread, so that the step costs the same however many cores are busy with other things.
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    with tempfile.TemporaryDirectory(prefix="train-images-") as folder:
        make_files(Path(folder), options.seed)
        step_s = train(make_loader(RemoteImages(Path(folder)), options), options)
    kept = step_s[WARM_STEPS:] or step_s
    print(f"median_step_ms {statistics.median(kept) * 1e3:.3f}")


if __name__ == "__main__":
    main()
