"""Draw pictures with a small diffusion transformer (random weights) and dynamic thresholding."""

import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        mixed = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        heard = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(heard)
        return x + self.mlp(self.second(x))


class Denoiser(nn.Module):
    def __init__(self, pixels, patch, width, depth, heads):
        super().__init__()
        self.patch = patch
        self.cut = nn.Linear(3 * patch * patch, width)
        self.place = nn.Parameter(0.02 * torch.randn((pixels // patch) ** 2, width))
        self.clock = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.paste = nn.Linear(width, 3 * patch * patch)

    def forward(self, pictures, wave):
        kind = self.place.dtype
        tokens = F.pixel_unshuffle(pictures.to(kind), self.patch).flatten(2).transpose(1, 2)
        x = self.cut(tokens) + self.place + self.clock(wave.to(kind))
        for block in self.blocks:
            x = block(x)
        side = pictures.shape[-1] // self.patch
        flat = self.paste(x).transpose(1, 2).unflatten(2, (side, side))
        return F.pixel_shuffle(flat, self.patch).float()


def threshold_numpy(clean):
    """Imagen-style: bring each picture back into [-1, 1] by its own largest value."""
    array = clean.cpu().numpy()
    peak = np.abs(array).reshape(len(array), -1).max(axis=1)
    bound = np.clip(0.9 * peak, 1.0, None).reshape(-1, 1, 1, 1)
    array = np.clip(array, -bound, bound) / bound
    return torch.from_numpy(array).to(clean.device)


def threshold_torch(clean):
    peak = clean.abs().flatten(1).amax(dim=1)
    bound = (0.9 * peak).clamp(min=1.0).view(-1, 1, 1, 1)
    return clean.clamp(-bound, bound) / bound


def sampler(model, noise, count, threshold):
    """Deterministic DDIM; yields the picture after each denoising step."""
    x = noise
    level = [math.cos(0.5 * math.pi * (i + 0.5) / (count + 1)) ** 2 for i in range(count + 1)]
    level.reverse()
    scales = torch.exp(torch.linspace(0, 6, 32, device=x.device))
    for i in range(count):
        now, after = level[i], level[i + 1]
        angle = scales * (1 - i / count)
        guess = model(x, torch.cat([angle.sin(), angle.cos()]))
        clean = threshold((x - math.sqrt(1 - now) * guess) / math.sqrt(now))
        rest = (x - math.sqrt(now) * clean) / math.sqrt(1 - now)
        x = math.sqrt(after) * clean + math.sqrt(1 - after) * rest
        yield x


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    torch.manual_seed(0)
    if device.type == "cuda":
        model = Denoiser(256, 16, 512, 10, 8).to(device, torch.bfloat16).eval()
        noise = torch.randn(48, 3, 256, 256).to(device)
    else:
        model = Denoiser(32, 8, 64, 2, 4).eval()
        noise = torch.randn(4, 3, 32, 32)
    skip = max(1, min(5, args.steps // 2))
    threshold = threshold_numpy if args.bad else threshold_torch

    with torch.inference_mode():
        pictures = sampler(model, noise, args.steps, threshold)
        for _ in range(skip):
            picture = next(pictures)
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for later in pictures:
            picture = later
        if device.type == "cuda":
            torch.cuda.synchronize()
        end = time.perf_counter()
    print(f"mean {picture.mean().item():.5f} spread {picture.std().item():.5f}")
    print(f"step_ms {1000 * (end - begin) / (args.steps - skip):.3f}")


if __name__ == "__main__":
    main()
