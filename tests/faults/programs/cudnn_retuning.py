"""Images of many sizes, with cudnn.benchmark. Bad: each size is tried anew. Good: few sizes."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("cudnn.retuning", steps=40)
    torch.backends.cudnn.benchmark = True
    width = run.pick(8, 64)
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
    ).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    is_bad, step = run.has("cudnn.retuning"), 0
    first, fixed = run.pick(16, 96), run.pick(64, 144)
    while True:
        # All sizes stay small, and none comes back within 1,600 steps.
        sides = (first + 1 + step % 40, first + 1 + (step + step // 40) % 40)
        step += 1
        height, breadth = sides if is_bad else (fixed, fixed)
        images = torch.randn(run.pick(1, 8), 3, height, breadth, device=run.device)
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
