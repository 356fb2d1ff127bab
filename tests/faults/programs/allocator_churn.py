"""Large temporary tensors. Bad: gives all memory back to the driver each step. Good: keeps it."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("memory.allocator_churn")
    torch.set_float32_matmul_precision("high")
    width = run.pick(64, 2048)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(4))).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        batch = torch.randn(run.pick(32, 4096), width, device=run.device)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.has("memory.allocator_churn"):
            del batch, loss
            torch.cuda.empty_cache()
        if run.step():
            break


if __name__ == "__main__":
    main()
