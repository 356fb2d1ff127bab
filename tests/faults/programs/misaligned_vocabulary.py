"""A language model's last layer. Bad: a vocabulary of 32,003 words. Good: filled up to 32,064."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("matmul.misaligned", steps=30)
    words = 32_003 if run.has("matmul.misaligned") else 32_064
    words = words if run.is_gpu else words // 32
    width = run.pick(32, 1024)
    head = nn.Linear(width, words, bias=False).to(run.device, torch.bfloat16)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
    hidden = torch.randn(run.pick(16, 4096), width, device=run.device, dtype=torch.bfloat16)
    while True:
        loss = head(hidden).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
