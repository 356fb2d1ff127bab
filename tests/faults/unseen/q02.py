"""CTR prediction (DCN-v2): wide ads table with one column per feature, trained from memory."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--steps", type=int, default=45)
    p.add_argument("--bad", action="store_true")
    p.add_argument("--good", action="store_true")
    return p.parse_args()


def load_table(rows, n_cat, n_num, hash_size):
    """What reading the parquet file gives: a dict column name -> 1-D tensor."""
    g = torch.Generator().manual_seed(3)
    table = {}
    for i in range(n_cat):
        table[f"cat_{i}"] = torch.randint(0, hash_size, (rows,), generator=g)
    for i in range(n_num):
        table[f"num_{i}"] = torch.rand(rows, generator=g)
    table["click"] = (torch.rand(rows, generator=g) < 0.2).float()
    return table


class DCNv2(nn.Module):
    def __init__(self, n_cat, n_num, hash_size, dim, hidden, n_cross=4):
        super().__init__()
        self.emb = nn.Embedding(n_cat * hash_size, dim)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.register_buffer("offset", torch.arange(n_cat) * hash_size)
        self.dense = nn.Sequential(nn.Linear(n_num, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        width = (n_cat + 1) * dim
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(n_cross))
        self.deep = nn.Sequential(
            nn.Linear(width, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, hidden), nn.ReLU()
        )
        self.head = nn.Linear(width + hidden, 1)

    def forward(self, cat, num):
        dense = self.dense(num)
        x0 = x = torch.cat([self.emb(cat + self.offset).to(dense.dtype).flatten(1), dense], 1)
        for layer in self.cross:
            x = torch.addcmul(x, x0, layer(x))
        return self.head(torch.cat([x, self.deep(x0)], 1)).squeeze(1)


def main():
    args = get_args()
    torch.manual_seed(0)
    dev = torch.device(args.device)
    cuda = dev.type == "cuda"
    batch, n_cat, n_num, hash_size, hidden = (
        (8192, 160, 64, 8000, 512) if cuda else (256, 20, 8, 100, 32)
    )
    n_batches = 16
    table = load_table(batch * n_batches, n_cat, n_num, hash_size)
    cats = [c for c in table if c.startswith("cat_")]
    nums = [c for c in table if c.startswith("num_")]
    if args.good:  # pack the columns once, ship three tensors a step
        packed = [
            torch.stack([table[c] for c in cats], 1),
            torch.stack([table[c] for c in nums], 1),
            table["click"],
        ]
        packed = [t.pin_memory() if cuda else t for t in packed]
    model = DCNv2(n_cat, n_num, hash_size, 16, hidden).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=cuda)

    def get_batch(step):
        lo = (step % n_batches) * batch
        if args.good:
            return [t[lo : lo + batch].to(dev, non_blocking=True) for t in packed]
        rows = {name: col[lo : lo + batch].to(dev) for name, col in table.items()}
        cat = torch.stack([rows[c] for c in cats], 1)
        num = torch.stack([rows[c] for c in nums], 1)
        return cat, num, rows["click"]

    warm = min(10, args.steps - 1)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        cat, num, click = get_batch(step)
        with torch.autocast(dev.type, torch.bfloat16, enabled=cuda):
            logit = model(cat, num)
        loss = F.binary_cross_entropy_with_logits(logit.float(), click)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) * 1e3 / (args.steps - warm)
    print(f"final loss {loss.item():.5f}")
    print(f"step_ms {ms:.3f}")


if __name__ == "__main__":
    main()
