"""Keyword spotting: short clips of sound are filtered, framed and turned into spectra."""

import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

RATE, WORDS, BATCH = 8000, 12, 32


class Clips(Dataset):
    def __init__(self, count):
        self.count = count
        self.window = torch.hann_window(256)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        word = i % WORDS
        gen = torch.Generator().manual_seed(i)
        t = torch.arange(RATE) / RATE
        clip = torch.sin(2 * math.pi * (200 + 90 * word) * t)
        clip = clip + 0.3 * torch.randn(RATE, generator=gen)
        spectrum = torch.stft(clip, 256, hop_length=80, window=self.window, return_complex=True)
        return (spectrum.abs() + 1e-5).log()[:64, :96], word


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 24, 5, stride=2, padding=2),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.Conv2d(48, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(64, WORDS)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    data = Clips(args.steps * BATCH)
    if args.good:
        loader = DataLoader(data, BATCH, num_workers=2, persistent_workers=True, prefetch_factor=4)
    else:
        loader = DataLoader(data, BATCH)
    model = Spotter()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    start = time.perf_counter()
    for step, (spectra, words) in enumerate(loader):
        if step == 10:
            start = time.perf_counter()
        opt.zero_grad()
        loss = F.cross_entropy(model(spectra.unsqueeze(1)), words)
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(f"loss {loss.item():.3f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
