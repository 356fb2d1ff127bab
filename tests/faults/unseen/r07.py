"""Tag the words of sentences with a compiled model; sentences come sorted into no lengths."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS, TAGS, DIM, SHORTEST, LONGEST = 3000, 17, 96, 8, 72


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleList(nn.Conv1d(DIM, DIM, 3, padding=1) for _ in range(3))
        self.out = nn.Linear(DIM, TAGS)

    def forward(self, ids):
        x = self.words(ids).transpose(1, 2)
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        return self.out(x.transpose(1, 2))


def sentences(rng, gen, rounded):
    width = rng.randint(SHORTEST, LONGEST)
    if rounded:
        width = LONGEST
    ids = torch.randint(1, WORDS, (16, width), generator=gen)
    return ids, ids % TAGS


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    torch._dynamo.config.cache_size_limit = 128
    rng, gen = random.Random(2), torch.Generator().manual_seed(2)
    model = Tagger()
    compiled = torch.compile(model, dynamic=False)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        ids, tags = sentences(rng, gen, rounded=args.good)
        loss = F.cross_entropy(compiled(ids).flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(f"loss {loss.item():.3f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
