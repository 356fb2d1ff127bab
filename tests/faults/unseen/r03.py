"""Look through a shift's photographs of parts for scratches, and count those to be looked at."""

import argparse
import time

import torch
import torch.nn as nn

TRAY = 48


class Inspector(nn.Module):
    def __init__(self, width=24, blocks=6):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, groups=width),
                nn.Conv2d(width, width, 1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            )
            for _ in range(blocks)
        )
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        x = self.first(x).relu()
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Camera:
    def __init__(self, seed=3):
        self.gen = torch.Generator().manual_seed(seed)
        self.shelf = torch.randint(0, 256, (512, 3, 24, 24), dtype=torch.uint8, generator=self.gen)

    def tray(self):
        picks = torch.randint(0, len(self.shelf), (TRAY,), generator=self.gen)
        return [self.shelf[i] for i in picks.tolist()]


def prepare(photo):
    return photo.float().div(255).sub(0.5)


def inspect_each(model, photos):
    scores = []
    for photo in photos:
        logits = model(prepare(photo).unsqueeze(0))
        scores.append(logits.softmax(-1)[0, 1])
    return torch.stack(scores)


def inspect_tray(model, photos):
    return model(prepare(torch.stack(photos))).softmax(-1)[:, 1]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = Inspector().eval()
    camera = Camera()
    inspect = inspect_tray if args.good else inspect_each
    doubtful = 0
    start = time.perf_counter()
    with torch.inference_mode():
        for step in range(args.steps):
            if step == 10:
                start = time.perf_counter()
            scores = inspect(model, camera.tray())
            doubtful += int((scores > 0.5).sum())
    took = time.perf_counter() - start
    print(f"to look at {doubtful}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
