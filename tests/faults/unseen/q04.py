"""Class-conditional image sampling with a DiT (latent diffusion, DDIM, classifier-free
guidance)."""

import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--steps", type=int, default=45, help="images sampled")
parser.add_argument("--bad", action="store_true")
parser.add_argument("--good", action="store_true")
args = parser.parse_args()
device = torch.device(args.device)
on_gpu = device.type == "cuda"
DIM, HEADS, DEPTH, GRID, DDIM = (2048, 16, 14, 16, 10) if on_gpu else (64, 4, 2, 8, 4)


def timestep_embedding(t, dim):
    freq = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    ang = t[:, None].float() * freq
    return torch.cat([ang.cos(), ang.sin()], 1)


class DiTBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1 = nn.LayerNorm(DIM, elementwise_affine=False)
        self.n2 = nn.LayerNorm(DIM, elementwise_affine=False)
        self.ada = nn.Linear(DIM, 6 * DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, c):
        b, n, _ = x.shape
        s1, b1, g1, s2, b2, g2 = self.ada(c)[:, None].chunk(6, -1)
        q, k, v = (
            self.qkv(self.n1(x) * (1 + s1) + b1).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        )
        att = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, DIM)
        x = x + g1 * self.proj(att)
        return x + g2 * self.down(F.gelu(self.up(self.n2(x) * (1 + s2) + b2), approximate="tanh"))


class DiT(nn.Module):
    def __init__(self, classes=1000, channels=16):
        super().__init__()
        self.inp, self.out = nn.Linear(channels, DIM), nn.Linear(DIM, channels)
        self.pos = nn.Parameter(torch.randn(1, GRID * GRID, DIM) * 0.02)
        self.cls = nn.Embedding(classes + 1, DIM)
        self.time = nn.Sequential(nn.Linear(256, DIM), nn.SiLU(), nn.Linear(DIM, DIM))
        self.blocks = nn.ModuleList(DiTBlock() for _ in range(DEPTH))

    def forward(self, z, t, y):
        x = self.inp(z.to(self.pos.dtype)) + self.pos
        c = F.silu(self.time(timestep_embedding(t, 256).to(self.pos.dtype)) + self.cls(y))
        for blk in self.blocks:
            x = blk(x, c)
        return self.out(x).float()


@torch.no_grad()
def sample(model, y, alphas, times, gen, guidance=4.0):
    z = torch.randn(len(y), GRID * GRID, 16, device=device, generator=gen)
    yy = torch.cat([y, torch.full_like(y, 1000)])
    for i in range(DDIM):
        t = times[i].expand(len(yy))
        if args.good:
            eps = model(torch.cat([z, z]), t, yy)
        else:
            with torch.autocast(device.type, dtype=torch.bfloat16):
                eps = model(torch.cat([z, z]), t, yy)
        cond, uncond = eps.chunk(2)
        eps = uncond + guidance * (cond - uncond)
        a, prev = alphas[i], alphas[i + 1]
        x0 = ((z - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-4, 4)
        z = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
    return z


def main():
    torch.manual_seed(0)
    with torch.device(device):
        model = DiT().eval().requires_grad_(False)  # the checkpoint is stored in fp32
    if args.good:
        model.to(torch.bfloat16)
    gen = torch.Generator(device).manual_seed(1)
    times = torch.linspace(999, 0, DDIM, device=device).long()
    alphas = torch.cos(torch.linspace(1.5, 0.0, DDIM + 1, device=device)) ** 2
    labels = torch.randint(0, 1000, (args.steps, 1), generator=torch.Generator().manual_seed(2)).to(
        device
    )
    skip = min(10, args.steps - 1)
    for n in range(args.steps):
        if n == skip:
            if on_gpu:
                torch.cuda.synchronize()
            start = time.perf_counter()
        latent = sample(model, labels[n], alphas, times, gen)
    if on_gpu:
        torch.cuda.synchronize()
    took = time.perf_counter() - start
    print(f"latent std {latent.std().item():.4f}")
    print(f"step_ms {took / (args.steps - skip) * 1e3:.3f}")


if __name__ == "__main__":
    main()
