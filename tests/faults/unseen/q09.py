"""Semantic segmentation of aerial photos: plain ViT on 1024x1024 tiles with 16x16 patches (4096
tokens)."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
ap.add_argument("--steps", type=int, default=45)
ap.add_argument("--bad", action="store_true")
ap.add_argument("--good", action="store_true")
args = ap.parse_args()
device = torch.device(args.device)
cuda = device.type == "cuda"
SIDE, BATCH, DIM, HEADS, DEPTH, CLASSES = (
    (1024, 2, 768, 12, 6, 16) if cuda else (128, 2, 48, 4, 2, 4)
)
PATCH = 16


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(b, n, 3, self.heads, c // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        if args.good:
            x = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        else:
            attn = (q * self.scale) @ k.transpose(-2, -1)
            attn = attn.softmax(dim=-1)
            x = attn @ v
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = SIDE // PATCH
        self.embed = nn.Conv2d(3, DIM, PATCH, PATCH)
        self.pos = nn.Parameter(torch.randn(1, self.grid**2, DIM) * 0.02)
        self.blocks = nn.Sequential(*[Block(DIM, HEADS) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2) + self.pos
        x = self.head(self.norm(self.blocks(x)))
        x = x.transpose(1, 2).reshape(len(img), CLASSES, self.grid, self.grid)
        return F.interpolate(x, scale_factor=4, mode="bilinear", align_corners=False)


def make_tiles(n):
    g = torch.Generator().manual_seed(11)
    imgs = torch.randint(0, 256, (n, 3, SIDE, SIDE), dtype=torch.uint8, generator=g)
    masks = torch.randint(0, CLASSES, (n, SIDE // 4, SIDE // 4), dtype=torch.uint8, generator=g)
    return (imgs.pin_memory(), masks.pin_memory()) if cuda else (imgs, masks)


def main():
    torch.manual_seed(0)
    imgs, masks = make_tiles(8 * BATCH)
    model = Segmenter().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=cuda)
    warm = min(10, args.steps - 1)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter()
        s = slice(step % 8 * BATCH, (step % 8 + 1) * BATCH)
        x = imgs[s].to(device, non_blocking=True).float().div_(255).sub_(0.5)
        y = masks[s].to(device, non_blocking=True).long()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cuda):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    if cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - begin
    print(f"loss {loss.item():.5f}")
    print(f"step_ms {1e3 * elapsed / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
