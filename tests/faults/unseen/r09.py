"""Score houses with a trained model, page by page, and keep the best of each page."""

import argparse
import contextlib
import time

import torch
import torch.nn as nn

COLUMNS, PAGE = 40, 2048


class Ranker(nn.Module):
    def __init__(self, width=256, depth=5):
        super().__init__()
        self.first = nn.Linear(COLUMNS, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = x + torch.sigmoid(layer(norm(x))) * x
        return self.score(x).squeeze(-1)


class Listings:
    def __init__(self):
        self.rows = torch.randn(50000, COLUMNS)

    def page(self, number):
        first = number * PAGE % (len(self.rows) - PAGE)
        return self.rows[first : first + PAGE]


def best_of(model, page, count=20):
    scores = model(page)
    values, places = scores.topk(count)
    return values.detach().tolist(), places.tolist()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = Ranker()
    model.eval()
    listings = Listings()
    mode = torch.inference_mode() if args.good else contextlib.nullcontext()
    top = 0.0
    start = time.perf_counter()
    with mode:
        for number in range(args.steps):
            if number == 10:
                start = time.perf_counter()
            values, places = best_of(model, listings.page(number))
            top = max(top, values[0])
    took = time.perf_counter() - start
    print(f"best {top:.4f} at {places[0]}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
