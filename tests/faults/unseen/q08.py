"""Supervised fine-tuning of a small language model with a 128k vocabulary; only the answers are
trained on."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--steps", type=int, default=45)
parser.add_argument("--bad", action="store_true")
parser.add_argument("--good", action="store_true")
args = parser.parse_args()
dev = torch.device(args.device)
cuda = dev.type == "cuda"
BATCH, CTX, DIM, HEADS, LAYERS, VOCAB = (
    (8, 1024, 1024, 16, 6, 128256) if cuda else (2, 64, 64, 4, 2, 2000)
)
IGNORE = -100


class Conversations(torch.utils.data.Dataset):
    """Packed to CTX tokens; the labels (already shifted by one) are IGNORE outside the answers."""

    def __len__(self):
        return BATCH * args.steps

    def __getitem__(self, i):
        rng = random.Random(i)
        ids = torch.randint(0, VOCAB, (CTX + 1,), generator=torch.Generator().manual_seed(i))
        labels, at = torch.full((CTX,), IGNORE), 0
        while at < CTX:
            question, answer = (
                rng.randrange(CTX // 8, CTX // 3),
                rng.randrange(CTX // 64, CTX // 16),
            )
            s = slice(at + question, at + question + answer)
            labels[s] = ids[1:][s]
            at += question + answer
        return ids[:-1], labels


def collate(rows):
    ids, labels = torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])
    flat = labels.flatten()
    where = (flat != IGNORE).nonzero().squeeze(1)
    return ids, labels, where, flat[where]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = (
            nn.Linear(DIM, 4 * DIM, bias=False),
            nn.Linear(4 * DIM, DIM, bias=False),
        )

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(CTX, DIM)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)
        self.lm_head.weight = self.tok.weight

    def forward(self, ids, labels, where, targets):
        x = self.tok(ids) + self.pos.weight
        for blk in self.blocks:
            x = blk(x)
        x = self.norm(x)
        if args.good:  # only the positions that are trained on
            return F.cross_entropy(self.lm_head(x.flatten(0, 1)[where]), targets)
        logits = self.lm_head(x).float()
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=IGNORE)


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Conversations(),
        BATCH,
        shuffle=True,
        collate_fn=collate,
        num_workers=4 if cuda else 1,
        pin_memory=cuda,
    )
    model = LM().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    skip, t0 = min(10, args.steps - 1), 0.0
    for step, batch in enumerate(loader, 1):
        batch = [t.to(dev, non_blocking=True) for t in batch]
        with torch.autocast(dev.type, torch.bfloat16, enabled=cuda):
            loss = model(*batch)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == skip:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
    if cuda:
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) * 1e3 / (args.steps - skip)
    print(f"loss {loss.item():.4f}")
    print(f"step_ms {ms:.3f}")


if __name__ == "__main__":
    main()
