"""Double the resolution of a film with an EDSR-like network in half precision."""

import argparse
import time

import torch
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.act(self.conv1(x))
        y = self.conv2(y)
        return y.mul_(0.1).add_(x)


class Upscaler(nn.Module):
    def __init__(self, channels, depth, factor=2):
        super().__init__()
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.Sequential(*[ResidualBlock(channels) for _ in range(depth)])
        self.tail = nn.Conv2d(channels, channels, 3, padding=1)
        self.grow = nn.Conv2d(channels, 3 * factor * factor, 3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)

    def forward(self, frames):
        x = self.head(frames)
        x = x + self.tail(self.body(x))
        return self.shuffle(self.grow(x))


class Film:
    """Endless moving stripes, handed out as small groups of frames that live on the device."""

    def __init__(self, group, height, width, device, dtype):
        rows = torch.linspace(0, 20, height, device=device).view(1, 1, height, 1)
        columns = torch.linspace(0, 30, width, device=device).view(1, 1, 1, width)
        colour = torch.tensor([0.0, 1.0, 2.0], device=device).view(1, 3, 1, 1)
        frame = torch.arange(group, device=device).view(group, 1, 1, 1)
        base = rows + columns + colour
        self.groups = [
            (0.5 + 0.5 * torch.sin(base + 0.1 * (frame + k * group))).to(dtype) for k in range(3)
        ]

    def __iter__(self):
        while True:
            yield from self.groups


def build(args, device):
    torch.manual_seed(5)
    if device.type == "cuda":
        model, dtype = Upscaler(64, 16), torch.bfloat16
        film = Film(4, 540, 960, device, dtype)
    else:
        model, dtype = Upscaler(16, 2), torch.float32
        film = Film(1, 40, 64, device, dtype)
    model = model.to(device=device, dtype=dtype).eval()
    if args.good:
        model = model.to(memory_format=torch.channels_last)
        film.groups = [group.to(memory_format=torch.channels_last) for group in film.groups]
    return model, film


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model, film = build(args, device)
    frames = iter(film)

    def play(count):
        for _ in range(count):
            big = model(next(frames))
        if device.type == "cuda":
            torch.cuda.synchronize()
        return big

    warm = min(6, args.steps // 2)
    play(warm)
    begin = time.perf_counter()
    big = play(args.steps - warm)
    spent = time.perf_counter() - begin
    print(f"{tuple(big.shape)} mean {big.float().mean().item():.5f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
