"""Tabular regression (house prices): FT-Transformer over 48 numeric columns, gradient
percentiles for the dashboard."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LOG_EVERY, PERCENTILES = 10, (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(self.n2(x))))


class FTTransformer(nn.Module):
    def __init__(self, columns, dim, heads, depth):
        super().__init__()
        self.w = nn.Parameter(torch.randn(columns, dim) * 0.1)
        self.b = nn.Parameter(torch.zeros(columns, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 1)

    def forward(self, x):
        tok = x[:, :, None] * self.w + self.b
        h = torch.cat([self.cls.expand(len(x), -1, -1), tok], 1)
        for blk in self.blocks:
            h = blk(h)
        return self.head(self.norm(h[:, 0])).squeeze(1)


class GradientPercentiles:
    """Percentiles of each layer's gradient over time (to choose the clipping threshold)."""

    def __init__(self, on_device):
        self.on_device, self.rows = on_device, {}

    def log(self, model, step):
        row = {}
        for name, q in model.named_parameters():
            grad = q.grad.flatten() if self.on_device else q.grad.cpu().flatten()
            ordered = grad.sort().values
            row[name] = torch.stack([ordered[int(f * (len(ordered) - 1))] for f in PERCENTILES])
        self.rows[step] = torch.stack(list(row.values()))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--steps", type=int, default=45)
    p.add_argument("--bad", action="store_true")
    p.add_argument("--good", action="store_true")
    args = p.parse_args()
    torch.manual_seed(0)
    dev = torch.device(args.device)
    cuda = dev.type == "cuda"
    batch, cols, dim, heads, depth = (2048, 47, 256, 8, 6) if cuda else (64, 15, 32, 4, 2)
    # the whole table fits on the device
    X = torch.randn(16 * batch, cols, generator=torch.Generator().manual_seed(1))
    y = (X[:, :8].sin().sum(1) + 0.1 * X[:, 8]).to(dev)
    X = X.to(dev)
    model = FTTransformer(cols, dim, heads, depth).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5, fused=cuda)
    logger = GradientPercentiles(on_device=args.good)
    perm = torch.randperm(len(X), device=dev)
    warm = min(10, args.steps - 1)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        lo = step * batch % len(X)
        idx = perm[lo : lo + batch]
        with torch.autocast(dev.type, torch.bfloat16, enabled=cuda):
            pred = model(X[idx])
        loss = F.mse_loss(pred.float(), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % LOG_EVERY == LOG_EVERY - 1:
            logger.log(model, step)
    if cuda:
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) * 1e3 / (args.steps - warm)
    table = torch.stack(list(logger.rows.values())) if logger.rows else torch.zeros(1)
    print(f"mse {loss.item():.4f}, percentile table mean |x| {table.abs().mean().item():.4e}")
    print(f"step_ms {ms:.3f}")


if __name__ == "__main__":
    main()
