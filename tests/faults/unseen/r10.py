"""Train a model to tell which of two notes of support belong together; notes are cut to 192."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

VOCAB, LENGTH, BATCH, PAD = 5000, 192, 16, 0


class Pairs(Dataset):
    def __init__(self, count):
        rng = random.Random(8)
        self.pairs = []
        for _ in range(count):
            topic = rng.randint(1, 40)
            self.pairs.append((self.note(rng, topic), self.note(rng, topic)))

    def note(self, rng, topic):
        length = min(LENGTH, max(6, int(rng.lognormvariate(3.1, 0.5))))
        return [topic * 100 + rng.randint(0, 99) for _ in range(length)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def to_full_length(notes):
    ids = torch.tensor([note + [PAD] * (LENGTH - len(note)) for note in notes])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def to_longest(notes):
    ids = pad_sequence([torch.tensor(note) for note in notes], batch_first=True, padding_value=PAD)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


class Encoder(nn.Module):
    def __init__(self, dim=128, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.places = nn.Embedding(LENGTH, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids) + self.places.weight[: input_ids.shape[1]]
        x = self.layers(x, src_key_padding_mask=attention_mask == 0)
        weights = attention_mask.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    pad = to_longest if args.good else to_full_length

    def collate(pairs):
        return pad([a for a, _ in pairs]), pad([b for _, b in pairs])

    loader = DataLoader(Pairs(args.steps * BATCH), BATCH, collate_fn=collate)
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    start = time.perf_counter()
    for step, (left, right) in enumerate(loader):
        if step == 10:
            start = time.perf_counter()
        scores = model(**left) @ model(**right).T * 10
        loss = F.cross_entropy(scores, torch.arange(len(scores)))
        opt.zero_grad()
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(f"loss {loss.item():.3f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
