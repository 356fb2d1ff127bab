"""Semantic search evaluation: encode a stream of queries with a small text encoder, recall@10 on
a corpus."""

import argparse
import random
import re
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS = [
    f"{a}{b}{c}"
    for a in ("ka", "lo", "mi", "ru", "se")
    for b in ("tan", "ver", "pol", "dim")
    for c in ("", "a", "is", "or", "en")
]
VOCAB = {w: i + 1 for i, w in enumerate(WORDS)}


def tokenize(text):
    return [VOCAB.get(w, 0) for w in re.findall(r"\w+", text.lower())]


class Encoder(nn.Module):
    def __init__(self, dim=192, layers=3, heads=4):
        super().__init__()
        self.tok = nn.Embedding(len(VOCAB) + 1, dim)
        self.pos = nn.Embedding(64, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids, pad=None):
        x = self.body(self.tok(ids) + self.pos.weight[: ids.shape[1]], src_key_padding_mask=pad)
        if pad is None:
            return F.normalize(x.mean(1), dim=-1)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return F.normalize((x * keep).sum(1) / keep.sum(1), dim=-1)


def embed_one_by_one(model, texts):
    out = []
    for text in texts:
        ids = torch.tensor([tokenize(text)])
        out.append(model(ids))
    return torch.cat(out)


def embed_in_batch(model, texts):
    rows = [tokenize(t) for t in texts]
    width = max(len(r) for r in rows)
    if min(len(r) for r in rows) == width:
        return model(torch.tensor(rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    pad = torch.ones(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        pad[i, : len(row)] = False
    return model(ids, pad)


def make_queries(count, seed=5):
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(WORDS) for _ in range(rng.randint(7, 10))) + "?" for _ in range(count)
    ]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = Encoder().eval()
    embed = embed_in_batch if args.good else embed_one_by_one
    page, hits = 24, 0
    texts = make_queries(480)
    # same length in one page costs no padding: sort once, as the query log allows any order
    texts.sort(key=lambda t: len(tokenize(t)))
    with torch.inference_mode():
        corpus = torch.cat(
            [embed_in_batch(model, texts[i : i + page]) for i in range(0, 480, page)]
        )
        start = time.perf_counter()
        for step in range(args.steps):
            if step == 10:
                start = time.perf_counter()
            lo = (step * page) % 480
            queries = embed(model, texts[lo : lo + page])
            top = (queries @ corpus.T).topk(10, dim=1).indices
            hits += (top == torch.arange(lo, lo + page)[:, None]).any(1).sum().item()
        took = time.perf_counter() - start
    print(f"recall@10 {hits / (args.steps * page):.4f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
