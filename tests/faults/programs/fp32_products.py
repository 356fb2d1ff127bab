"""A wide net. Bad: products in full fp32. Good: TF32 on tensor cores."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("precision.fp32_matmul", steps=30)
    torch.backends.cuda.matmul.allow_tf32 = not run.has("precision.fp32_matmul")
    width = run.pick(64, 4096)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(4))).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(run.pick(8, 2048), width, device=run.device)
    while True:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
