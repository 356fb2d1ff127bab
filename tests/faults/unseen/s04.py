"""Draw outlines (sets of points) from a small denoising diffusion network, step by step."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class TimedBlock(nn.Module):
    """A residual layer on points; the moment and the wanted shape scale and shift it."""

    def __init__(self, width, hint_width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hint = nn.Linear(hint_width, 2 * width)
        self.enter = nn.Linear(width, width)
        self.pool = nn.Linear(width, width, bias=False)
        self.leave = nn.Linear(width, width)

    def forward(self, x, hint):
        scale, shift = self.hint(hint)[:, None].chunk(2, dim=-1)
        y = self.norm(x) * (1 + scale) + shift
        y = self.enter(y) + self.pool(y.mean(dim=1, keepdim=True))
        return x + self.leave(F.silu(y))


class Denoiser(nn.Module):
    def __init__(self, width, blocks, shapes, hint_width=64):
        super().__init__()
        self.register_buffer("waves", torch.exp(torch.linspace(0.0, -6.0, hint_width // 2)))
        self.shapes = nn.Embedding(shapes, hint_width)
        self.hint_net = nn.Sequential(
            nn.Linear(hint_width, hint_width), nn.SiLU(), nn.Linear(hint_width, hint_width)
        )
        self.enter = nn.Linear(2, width)
        self.blocks = nn.ModuleList(TimedBlock(width, hint_width) for _ in range(blocks))
        self.leave = nn.Linear(width, 2)

    def forward(self, points, when, shape):
        angles = when[:, None] * self.waves
        hint = self.hint_net(torch.cat([angles.sin(), angles.cos()], dim=1) + self.shapes(shape))
        x = self.enter(points)
        for block in self.blocks:
            x = block(x, hint)
        return self.leave(x)


def draw(model, noise, shape, keep, visits):
    """Walk from pure noise to an outline over the given moments, without fresh noise."""
    x = noise
    for now, after in zip(visits[:-1], visits[1:], strict=True):
        when = torch.full((x.shape[0],), float(now), device=x.device)
        guess = model(x, when, shape)
        clean = ((x - (1 - keep[now]).sqrt() * guess) / keep[now].sqrt()).clamp(-1.5, 1.5)
        x = keep[after].sqrt() * clean + (1 - keep[after]).sqrt() * guess
    return x


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(17)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    width, blocks, count, batch, moments = (256, 8, 2048, 32, 50) if cuda else (32, 4, 96, 4, 30)
    model = Denoiser(width, blocks, shapes=10).to(device).eval()
    keep = torch.cos(torch.linspace(0.02, 1.5, 200, device=device)) ** 2
    visits = torch.linspace(199, 0, moments + 1).long().tolist()

    spent = []
    spread = torch.zeros((), device=device)
    for step in range(args.steps):
        begin = time.perf_counter()
        noise = torch.randn(batch, count, 2, device=device)
        shape = torch.randint(0, 10, (batch,), device=device)
        if args.bad:
            outlines = draw(model, noise, shape, keep, visits).detach()
        else:
            with torch.inference_mode():
                outlines = draw(model, noise, shape, keep, visits)
        outlines = outlines - outlines.mean(dim=1, keepdim=True)
        spread += outlines.norm(dim=-1).mean()
        if step % 20 == 19:
            print(f"batch {step + 1} spread {spread.item() / (step + 1):.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
