"""A compiled model for sequences. Bad: each batch has a length of its own, and the compiler is told
to take every length for a constant. Good: padded to one of few lengths."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("compile.recompiles", steps=36)
    torch._dynamo.config.cache_size_limit = 256
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.LayerNorm(32))
    model.to(run.device)
    compiled = torch.compile(model, dynamic=False, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    length = 40
    while True:
        length += 1
        padded = length if run.has("compile.recompiles") else 128
        batch = torch.zeros(8, padded, 32, device=run.device)
        batch[:, :length] = torch.randn(8, length, 32, device=run.device)
        # planted: compile.recompiles
        loss = compiled(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
