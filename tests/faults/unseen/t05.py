"""Keyword spotting on spoken commands: a deep dilated network trained with our own Lion."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class Lion(torch.optim.Optimizer):
    """Evolved sign momentum (Chen et al. 2023)."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, together=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        self.together = together

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if not self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
            if self.together:
                self.move_together(params, group)
            else:
                self.move(params, group)

    def move(self, params, group):
        beta1, beta2 = group["betas"]
        for p in params:
            momentum = self.state[p]["momentum"]
            p.mul_(1 - group["lr"] * group["weight_decay"])
            update = momentum.mul(beta1).add_(p.grad, alpha=1 - beta1)
            p.add_(update.sign_(), alpha=-group["lr"])
            momentum.mul_(beta2).add_(p.grad, alpha=1 - beta2)

    def move_together(self, params, group):
        beta1, beta2 = group["betas"]
        grads = [p.grad for p in params]
        momenta = [self.state[p]["momentum"] for p in params]
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        updates = torch._foreach_mul(momenta, beta1)
        torch._foreach_add_(updates, grads, alpha=1 - beta1)
        torch._foreach_sign_(updates)
        torch._foreach_add_(params, updates, alpha=-group["lr"])
        torch._foreach_mul_(momenta, beta2)
        torch._foreach_add_(momenta, grads, alpha=1 - beta2)


def dilated(channels, spread):
    return nn.Sequential(
        nn.Conv1d(channels, channels, 3, padding=spread, dilation=spread, bias=False),
        nn.BatchNorm1d(channels),
        nn.Conv1d(channels, channels, 1, bias=False),
        nn.BatchNorm1d(channels),
    )


class CommandNet(nn.Module):
    def __init__(self, bands, channels, depth, words):
        super().__init__()
        self.enter = nn.Conv1d(bands, channels, 5, padding=2)
        self.stages = nn.ModuleList(dilated(channels, 2 ** (i % 4)) for i in range(depth))
        self.leave = nn.Linear(channels, words)

    def forward(self, spectrogram):
        x = self.enter(spectrogram)
        for stage in self.stages:
            x = F.relu(x + stage(x))
        return self.leave(x.mean(dim=2))


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda = device.type == "cuda"
    channels, depth, batch, frames = (128, 48, 32, 98) if cuda else (16, 6, 8, 40)
    torch.manual_seed(21)
    model = CommandNet(40, channels, depth, 35).to(device)
    optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=0.1, together=args.good)
    sounds = torch.randn(8, batch, 40, frames).to(device)
    labels = torch.randint(0, 35, (8, batch)).to(device)

    def train(first, last):
        for step in range(first, last):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(sounds[step % 8]), labels[step % 8])
            loss.backward()
            optimizer.step()
        if cuda:
            torch.cuda.synchronize()
        return loss.detach()

    warm = min(8, args.steps // 2)
    train(0, warm)
    begin = time.perf_counter()
    loss = train(warm, args.steps)
    spent = time.perf_counter() - begin
    print(f"loss {loss.item():.5f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
