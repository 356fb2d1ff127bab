"""Train a small residual network on compressed synthetic photographs of coloured shapes."""

import argparse
import statistics
import time
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shelf:
    """Stands for a network store: each read takes about a round trip."""

    def __init__(self, trip):
        self.trip, self.blobs = trip, []

    def put(self, blob):
        self.blobs.append(blob)

    def read(self, index):
        time.sleep(self.trip)
        return self.blobs[index]


class ShapePhotos(Dataset):
    """Pictures kept as deflated bytes; opened, cropped and coloured when asked for."""

    def __init__(self, count, side, crop, seed):
        rng = np.random.default_rng(seed)
        self.side, self.crop = side, crop
        self.labels = rng.integers(0, 8, size=count)
        rows, columns = np.mgrid[0:side, 0:side] / side
        self.shelf = Shelf(trip=0.0015)
        for label in self.labels:
            cx, cy, radius = rng.uniform(0.25, 0.75, 2).tolist() + [0.08 + 0.04 * (label % 4)]
            inside = (columns - cx) ** 2 + (rows - cy) ** 2 < radius**2
            picture = rng.integers(0, 90, size=(side, side, 3), dtype=np.uint8)
            picture[inside, label // 3] += 140
            self.shelf.put(zlib.compress(picture.tobytes(), 6))

    def __len__(self):
        return len(self.shelf.blobs)

    def __getitem__(self, index):
        raw = np.frombuffer(zlib.decompress(self.shelf.read(index)), dtype=np.uint8)
        picture = raw.reshape(self.side, self.side, 3).astype(np.float32) / 255.0
        rng = np.random.default_rng(index)
        top, left = rng.integers(0, self.side - self.crop, size=2)
        picture = picture[top : top + self.crop, left : left + self.crop]
        if rng.random() < 0.5:
            picture = picture[:, ::-1]
        mean = picture.mean(axis=(0, 1), keepdims=True)
        picture = (picture - mean) * rng.uniform(0.8, 1.2) + mean
        picture = picture ** rng.uniform(0.85, 1.15) if picture.min() > 0 else picture
        tensor = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))
        return tensor, int(self.labels[index])


class Block(nn.Module):
    def __init__(self, width_in, width_out, stride):
        super().__init__()
        self.one = nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(width_out, width_out, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = nn.BatchNorm2d(width_out), nn.BatchNorm2d(width_out)
        self.skip = nn.Conv2d(width_in, width_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm_one(self.one(x)), inplace=True)
        return F.relu(self.norm_two(self.two(y)) + self.skip(x), inplace=True)


def build(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 5, 4, 2),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 8),
    )


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(11)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    batch, width, side, crop = (128, 96, 160, 128) if cuda else (24, 8, 64, 48)
    photos = ShapePhotos(4096 if cuda else 960, side, crop, seed=5)
    shared = {"batch_size": batch, "shuffle": True, "drop_last": True, "pin_memory": cuda}
    if args.bad:
        loader = DataLoader(photos, **shared)
    else:
        loader = DataLoader(
            photos,
            num_workers=12 if cuda else 3,
            persistent_workers=True,
            prefetch_factor=4,
            **shared,
        )

    model = build(width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, fused=True)
    batches = endless(loader)
    spent = []
    for step in range(args.steps):
        begin = time.perf_counter()
        pictures, labels = next(batches)
        pictures = pictures.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = F.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
