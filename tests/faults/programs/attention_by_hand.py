"""Attention. Bad: writes all scores to memory. Good: scaled_dot_product_attention."""

import math

import torch
from torch import nn
from torch.nn import functional
from twin import Twin


class Attention(nn.Module):
    def __init__(self, width, heads, by_hand):
        super().__init__()
        self.heads, self.by_hand = heads, by_hand
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        shape = (x.shape[0], x.shape[1], self.heads, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.inputs(x).chunk(3, dim=-1))
        if self.by_hand:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            mixed = functional.softmax(scores, dim=-1) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        return x + self.output(mixed.transpose(1, 2).flatten(2))


def main():
    run = Twin("attention.materialized", steps=30)
    width, heads = run.pick(32, 512), run.pick(2, 8)
    by_hand = run.has("attention.materialized")
    model = nn.Sequential(*(Attention(width, heads, by_hand) for _ in range(run.pick(1, 4))))
    model.to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(run.pick(2, 8), run.pick(32, 2048), width, device=run.device)
    while True:
        with torch.autocast(run.device, dtype=torch.bfloat16):
            loss = model(batch).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
