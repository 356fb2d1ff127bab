"""Sentiment classification of product reviews with a BERT-base sized encoder (already
tokenised)."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
ap.add_argument("--steps", type=int, default=45)
for mode in ("--bad", "--good"):
    ap.add_argument(mode, action="store_true")
args = ap.parse_args()
dev = torch.device(args.device)
CUDA = dev.type == "cuda"
MAX_LEN, BATCH, DIM, HEADS, LAYERS, VOCAB = (
    (512, 64, 768, 12, 12, 30528) if CUDA else (64, 8, 64, 4, 2, 1000)
)


class Reviews(Dataset):
    def __init__(self, n):
        rng = random.Random(5)
        self.rows = []
        for _ in range(n):
            ln = min(MAX_LEN, max(8, int(rng.lognormvariate(0, 0.6) * MAX_LEN * 0.2)))
            self.rows.append(([rng.randrange(1, VOCAB) for _ in range(ln)], rng.randrange(2)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(ids) for ids, _ in rows) if args.good else MAX_LEN
    ids = torch.zeros(len(rows), -(-longest // 8) * 8, dtype=torch.long)
    for r, (tok, _) in enumerate(rows):
        ids[r, : len(tok)] = torch.tensor(tok)
    return ids, ids != 0, torch.tensor([y for _, y in rows])


def batches(data):
    """Random batches; with --good, reviews of like length share a batch (sorted inside shuffled
    pools)."""
    rng = random.Random(6)
    order = list(range(len(data)))
    rng.shuffle(order)
    if args.good:
        pools = [order[i : i + 16 * BATCH] for i in range(0, len(order), 16 * BATCH)]
        order = [j for pool in pools for j in sorted(pool, key=lambda j: len(data.rows[j][0]))]
    result = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
    rng.shuffle(result)
    return result


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.ff(self.ln2(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(MAX_LEN, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, 2)

    def forward(self, ids, keep):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        mask = keep[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x[:, 0]))


def main():
    torch.manual_seed(0)
    data = Reviews(BATCH * args.steps)
    loader = DataLoader(
        data, batch_sampler=batches(data), collate_fn=collate, num_workers=4, pin_memory=CUDA
    )
    model = Classifier().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=CUDA)
    warm = min(10, args.steps - 1)
    for i, batch in enumerate(loader, 1):
        ids, keep, y = (t.to(dev, non_blocking=True) for t in batch)
        opt.zero_grad()
        with torch.autocast(dev.type, dtype=torch.bfloat16, enabled=CUDA):
            loss = F.cross_entropy(model(ids, keep), y)
        loss.backward()
        opt.step()
        if CUDA and i in (warm, args.steps):
            torch.cuda.synchronize()
        if i == warm:
            t0 = time.perf_counter()
    ms = 1e3 * (time.perf_counter() - t0) / (args.steps - warm)
    print(f"final loss {loss.item():.4f}\nstep_ms {ms:.3f}")


main()
