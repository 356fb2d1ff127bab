"""An autoencoder of sensor readings; every tenth step the threshold for alarms is set anew."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SENSORS, EVERY = 96, 10


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(SENSORS, 384), nn.ELU(), nn.Linear(384, 12))
        self.up = nn.Sequential(nn.Linear(12, 384), nn.ELU(), nn.Linear(384, SENSORS))

    def forward(self, x):
        return self.up(self.down(x))


def readings(count, gen):
    hidden = torch.randn(count, 8, generator=gen)
    mix = torch.randn(8, SENSORS, generator=gen)
    return torch.tanh(hidden @ mix) + 0.1 * torch.randn(count, SENSORS, generator=gen)


@torch.no_grad()
def alarm_threshold(model, normal):
    model.eval()
    errors = []
    for part in normal.split(256):
        errors.append((model(part) - part).pow(2).mean(1))
    model.train()
    return torch.cat(errors).quantile(0.995)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(4)
    data = readings(20000, gen)
    # The repaired program looks at a sample, which is enough for a threshold.
    normal = data[:1024] if args.good else data
    model = AutoEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    threshold = torch.tensor(1.0)
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        rows = torch.randint(0, len(data), (512,), generator=gen)
        batch = data[rows]
        loss = F.mse_loss(model(batch), batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % EVERY == EVERY - 1:
            threshold = alarm_threshold(model, normal)
    took = time.perf_counter() - start
    print(f"threshold {threshold.item():.4f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
