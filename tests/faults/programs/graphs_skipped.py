"""Compiled for CUDA graphs. Bad: a print in the middle keeps graphs from being made. Good: without
it."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("compile.graph_breaks", steps=40)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(12)).to(run.device)
    seen = []

    def forward(x):
        for layer in layers:
            x = torch.relu(layer(x))
            if run.has("compile.graph_breaks"):
                torch._dynamo.graph_break()
        return x

    options = {"mode": "reduce-overhead"} if run.is_gpu else {"backend": "aot_eager"}
    compiled = torch.compile(forward, **options)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    batch = torch.randn(64, 64, device=run.device)
    while True:
        loss = compiled(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach().clone())
        if run.step():
            break


if __name__ == "__main__":
    main()
