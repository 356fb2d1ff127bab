"""Each example has a few settings. Bad: each is copied alone. Good: all in one tensor."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("copy.many_small")
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(128, 64, device=run.device)
    settings = [[float(i * j % 5) for j in range(64)] for i in range(128)]
    while True:
        if run.has("copy.many_small"):
            weights = torch.stack([torch.tensor(row).to(run.device) for row in settings])
        else:
            weights = torch.tensor(settings).to(run.device, non_blocking=True)
        loss = (model(batch) * weights).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
