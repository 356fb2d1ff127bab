"""A language model. Bad: a vocabulary of 32,003 words. Good: filled up to 32,064."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("matmul.misaligned", steps=30)
    words = 32_003 if run.has("matmul.misaligned") else 32_064
    words = words if run.is_gpu else words // 32
    width = run.pick(32, 1024)
    body = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*body, nn.Linear(width, words, bias=False))
    model.to(run.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hidden = torch.randn(run.pick(16, 4096), width, device=run.device, dtype=torch.bfloat16)
    while True:
        loss = model(hidden).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
