"""Convolutions in half precision. Bad: NCHW, which is turned around for tensor cores. Good:
channels_last from the start."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("layout.transposes", steps=30)
    width = run.pick(8, 256)
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    layers += [nn.Conv2d(width, width, 3, padding=1) for _ in range(6)]
    model = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
    model.to(run.device)
    images = torch.randn(run.pick(2, 32), 3, run.pick(16, 64), run.pick(16, 64), device=run.device)
    if not run.has("layout.transposes"):
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        with torch.autocast(run.device, dtype=torch.bfloat16):
            loss = model(images).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
