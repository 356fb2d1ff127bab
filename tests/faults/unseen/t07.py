"""Outline organs in a CT volume: a 3-D U-Net slid over the scan, window by window."""

import argparse
import itertools
import time

import torch
import torch.nn.functional as F
from torch import nn


class Stage(nn.Module):
    """Two convolutions; thrifty stages hand their spare memory back, large scans ran out once."""

    def __init__(self, before, after, thrifty, stride=1):
        super().__init__()
        self.conv1 = nn.Conv3d(before, after, 3, padding=1, stride=stride)
        self.conv2 = nn.Conv3d(after, after, 3, padding=1)
        self.thrifty = thrifty

    def forward(self, x):
        x = F.leaky_relu(self.conv1(x), 0.01, inplace=True)
        x = F.leaky_relu(self.conv2(x), 0.01, inplace=True)
        if self.thrifty and x.is_cuda:
            torch.cuda.empty_cache()
        return x


class OrganNet(nn.Module):
    def __init__(self, base, organs, thrifty):
        super().__init__()
        sizes = [base, 2 * base, 4 * base, 8 * base]
        self.down = nn.ModuleList(
            Stage(before, after, thrifty, stride=1 if before == 1 else 2)
            for before, after in itertools.pairwise([1, *sizes])
        )
        self.grow = nn.ModuleList(
            nn.ConvTranspose3d(deep, high, 2, stride=2) for high, deep in itertools.pairwise(sizes)
        )
        self.up = nn.ModuleList(Stage(2 * size, size, thrifty) for size in sizes[:-1])
        self.last = nn.Conv3d(base, organs, 1)

    def forward(self, x):
        kept = []
        for stage in self.down:
            x = stage(x)
            kept.append(x)
        kept.pop()
        for grow, stage in zip(reversed(self.grow), reversed(self.up), strict=True):
            x = stage(torch.cat([kept.pop(), grow(x)], dim=1))
        return self.last(x)


class Scan:
    def __init__(self, shape, window, organs, device, dtype):
        axes = [torch.linspace(-2, 2, n, device=device) for n in shape]
        z, y, x = torch.meshgrid(*axes, indexing="ij")
        self.volume = torch.exp(-(x**2) - y**2 * (1.5 + torch.sin(3 * z))).to(dtype)
        self.votes = torch.zeros(organs, *shape, device=device)
        self.window = window

    def corners(self):
        """Half-overlapping windows, over and over."""
        half = self.window // 2
        places = [range(0, n - self.window + 1, half) for n in self.volume.shape]
        yield from itertools.cycle(itertools.product(*places))

    def cut(self, corner):
        z, y, x = (slice(c, c + self.window) for c in corner)
        return (z, y, x), self.volume[z, y, x][None, None]


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda = device.type == "cuda"
    torch.manual_seed(17)
    if cuda:
        model = OrganNet(24, 6, args.bad).to(device, torch.bfloat16).eval()
        scan = Scan((192, 240, 240), 96, 6, device, torch.bfloat16)
    else:
        model = OrganNet(4, 3, args.bad).eval()
        scan = Scan((24, 32, 32), 16, 3, device, torch.float32)

    model = model.to(memory_format=torch.channels_last_3d)
    warm = min(5, args.steps // 2)
    with torch.inference_mode():
        for step, corner in enumerate(itertools.islice(scan.corners(), args.steps)):
            if step == warm:
                if cuda:
                    torch.cuda.synchronize()
                begin = time.perf_counter()
            place, window = scan.cut(corner)
            scan.votes[(slice(None), *place)] += model(window)[0]
    if cuda:
        torch.cuda.synchronize()
    spent = time.perf_counter() - begin
    shares = scan.votes.argmax(dim=0).flatten().bincount(minlength=len(scan.votes))
    print(f"voxels per organ {shares.tolist()}, mean vote {scan.votes.mean().item():.6f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
