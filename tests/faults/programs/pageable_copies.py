"""Large batches go to the device. Bad: from pageable memory, one after the other. Good: from pinned
memory, while the device works."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("copy.pageable")
    is_pageable = run.has("copy.pageable")
    batches = [torch.randn(run.pick(8, 64), 3, 224, 224) for _ in range(4)]
    if run.is_gpu and not is_pageable:
        batches = [batch.pin_memory() for batch in batches]
    model = nn.Sequential(
        nn.Conv2d(3, 32, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
    )
    model = nn.Sequential(model, nn.Linear(512, 10)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    number = 0
    while True:
        batch = batches[number % len(batches)].to(run.device, non_blocking=not is_pageable)
        number += 1
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
