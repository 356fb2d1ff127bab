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
    side = run.pick(16, 96)
    while True:
        side += 1
        size = side if run.has("cudnn.retuning") else run.pick(64, 144)
        images = torch.randn(run.pick(1, 8), 3, size, size, device=run.device)
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
