"""Watches its loss. Bad: reads it, and the norm of each gradient, in each step. Good: adds up on
the device, and reads every 50th step."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("sync.host")
    torch.set_float32_matmul_precision("high")
    width = run.pick(64, 1024)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(8))).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(run.pick(32, 1024), width, device=run.device)
    total = torch.zeros((), device=run.device)
    number = 0
    while True:
        number += 1
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.has("sync.host"):
            norms = [parameter.grad.norm().item() for parameter in model.parameters()]
            if loss.item() != loss.item() or max(norms) > 1e6:
                raise RuntimeError("training diverged")
        else:
            total += loss.detach()
            if number % 50 == 0:
                print(f"mean loss {total.item() / 50:.4f}")
        if run.step():
            break


if __name__ == "__main__":
    main()
