"""Click prediction: categorical tables, a bottom and a top network, pairwise products."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class ClickModel(nn.Module):
    def __init__(self, fields, rows, width, dense, hidden):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(fields))
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.05)
        self.bottom = nn.Sequential(
            nn.Linear(dense, hidden), nn.ReLU(), nn.Linear(hidden, width), nn.ReLU()
        )
        pairs = torch.triu_indices(fields + 1, fields + 1, offset=1)
        self.register_buffer("pair_index", pairs[0] * (fields + 1) + pairs[1])
        self.top = nn.Sequential(
            nn.Linear(pairs.shape[1] + width, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden // 2),
            nn.ReLU(),
            nn.Linear(hidden // 2, 1),
        )

    def forward(self, categories, numbers):
        base = self.bottom(numbers)
        vectors = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack([base, *vectors], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        features = torch.cat([base, products.index_select(1, self.pair_index)], dim=1)
        return self.top(features).squeeze(1)


class ClickLog:
    """A made-up click log held on the device; the click depends on a few hidden weights."""

    def __init__(self, count, fields, rows, dense, device, seed):
        draw = torch.Generator().manual_seed(seed)
        skew = torch.rand(count, fields, generator=draw) ** 3
        self.categories = (skew * rows).long().clamp_(max=rows - 1).to(device)
        self.numbers = torch.randn(count, dense, generator=draw).to(device)
        weights = torch.randn(dense, generator=draw).to(device)
        lean = self.numbers @ weights + (self.categories[:, 0] % 5 - 2).float()
        self.clicks = (torch.sigmoid(lean) > 0.5).float()

    def batch(self, step, size):
        span = self.clicks.shape[0] // size
        part = slice((step % span) * size, (step % span + 1) * size)
        return self.categories[part], self.numbers[part], self.clicks[part]


def make_optimizer(model, first):
    decay = [p for name, p in model.named_parameters() if name.endswith("weight")]
    rest = [p for name, p in model.named_parameters() if not name.endswith("weight")]
    groups = [{"params": decay, "weight_decay": 1e-4}, {"params": rest, "weight_decay": 0.0}]
    if first:
        return torch.optim.AdamW(groups, lr=2e-3, foreach=False)
    return torch.optim.AdamW(groups, lr=2e-3, fused=True)


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        fields, rows, width, batch, hidden = 64, 20000, 32, 4096, 512
    else:
        fields, rows, width, batch, hidden = 26, 8000, 16, 128, 128
    log = ClickLog(40 * batch, fields, rows, 13, device, seed=4)
    model = ClickModel(fields, rows, width, 13, hidden).to(device)
    optimizer = make_optimizer(model, first=args.bad)

    spent = []
    seen_loss = torch.zeros((), device=device)
    for step in range(args.steps):
        begin = time.perf_counter()
        categories, numbers, clicks = log.batch(step, batch)
        loss = F.binary_cross_entropy_with_logits(model(categories, numbers), clicks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen_loss += loss.detach()
        if step % 20 == 19:
            print(f"step {step + 1} loss {seen_loss.item() / 20:.4f}", flush=True)
            seen_loss.zero_()
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
