"""Fine-tune a transformer sentiment classifier on pre-tokenised reviews of very unlike length."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MAX_LEN, VOCAB, PAD, BATCH = 160, 8000, 0, 12


class Reviews(Dataset):
    def __init__(self, n):
        rng = random.Random(7)
        self.items = []
        for _ in range(n):
            length = min(MAX_LEN, max(5, int(rng.lognormvariate(3.4, 0.6))))
            label = rng.randint(0, 1)
            ids = [1] + [
                rng.randint(2 + 3999 * label, 4000 + 3999 * label) for _ in range(length - 1)
            ]
            self.items.append((ids, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collator:
    def __init__(self, to_longest):
        self.to_longest = to_longest

    def __call__(self, rows):
        width = MAX_LEN
        if self.to_longest:
            width = max(len(ids) for ids, _ in rows)
        ids = torch.full((len(rows), width), PAD, dtype=torch.long)
        for r, (row, _) in enumerate(rows):
            ids[r, : len(row)] = torch.tensor(row)
        return ids, torch.tensor([label for _, label in rows])


class LengthBatches:
    """Batches of neighbours in length, in random order."""

    def __init__(self, data, batch):
        order = sorted(range(len(data)), key=lambda i: len(data[i][0]))
        self.batches = [order[i : i + batch] for i in range(0, len(order), batch)]
        random.Random(1).shuffle(self.batches)

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


class Classifier(nn.Module):
    def __init__(self, dim=128, layers=2, heads=4):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Embedding(MAX_LEN, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        pad = ids == PAD
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        x = self.encoder(x, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.head((x * keep).sum(1) / keep.sum(1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    data = Reviews(args.steps * BATCH)
    if args.good:
        loader = DataLoader(
            data, batch_sampler=LengthBatches(data, BATCH), collate_fn=Collator(True)
        )
    else:
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, collate_fn=Collator(False))
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    start, done = time.perf_counter(), 0
    for ids, labels in loader:
        loss = F.cross_entropy(model(ids), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        done += 1
        if done == 10:
            start = time.perf_counter()
    print(f"step_ms {(time.perf_counter() - start) * 1000 / max(1, done - 10):.2f}")


if __name__ == "__main__":
    main()
