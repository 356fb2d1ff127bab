"""Pre-train a small bidirectional encoder by guessing hidden words (masked language model)."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

SMALL = {"vocab": 10000, "width": 64, "layers": 1, "heads": 2, "batch": 8, "length": 40}
LARGE = {"vocab": 50000, "width": 512, "layers": 6, "heads": 8, "batch": 48, "length": 512}
MASK_ID = 1


class WordEncoder(nn.Module):
    def __init__(self, vocab, width, layers, heads, length):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Parameter(torch.randn(1, length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            4 * width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.decoder = nn.Linear(width, vocab)
        self.decoder.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, tokens):
        return self.body(self.words(tokens) + self.places)

    def predict(self, hidden):
        return self.decoder(self.transform(hidden))


def make_corpus(vocab, rows, length, generator):
    """Word chains: each word is a fixed function of the one before it, now and then broken."""
    follow = torch.randint(2, vocab, (vocab,), generator=generator)
    chain = torch.empty(rows, length, dtype=torch.long)
    chain[:, 0] = torch.randint(2, 200, (rows,), generator=generator)
    for place in range(1, length):
        chain[:, place] = follow[chain[:, place - 1]]
    noise = torch.rand(rows, length, generator=generator) < 0.05
    chain[noise] = torch.randint(2, vocab, (int(noise.sum()),), generator=generator)
    return chain


def hide_words(tokens, share):
    """Hide the same number of words in each row; give their places and the true words."""
    rows, length = tokens.shape
    hidden_count = max(1, int(share * length))
    places = torch.rand(rows, length, device=tokens.device).topk(hidden_count, dim=1).indices
    answers = tokens.gather(1, places)
    return tokens.scatter(1, places, MASK_ID), places, answers


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = LARGE if device.type == "cuda" else SMALL
    corpus = make_corpus(
        size["vocab"], 64 * size["batch"], size["length"], torch.Generator().manual_seed(7)
    ).to(device)
    model = WordEncoder(
        size["vocab"], size["width"], size["layers"], size["heads"], size["length"]
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    spent = []
    for step in range(args.steps):
        begin = time.perf_counter()
        first = (step % 64) * size["batch"]
        tokens = corpus[first : first + size["batch"]]
        inputs, places, answers = hide_words(tokens, 0.15)
        hidden = model(inputs)
        if args.bad:
            labels = torch.full_like(tokens, -100).scatter(1, places, answers)
            scores = model.predict(hidden)
            loss = F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())
        else:
            chosen = hidden.gather(1, places[..., None].expand(-1, -1, size["width"]))
            scores = model.predict(chosen)
            loss = F.cross_entropy(scores.flatten(0, 1).float(), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
