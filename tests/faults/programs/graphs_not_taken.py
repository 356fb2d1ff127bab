"""Compiled for CUDA graphs. Bad: the function writes into an input, so that torch leaves the graphs
out. Good: it returns the new value."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("compile.graphs_skipped", steps=40)
    layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(run.pick(2, 24))).to(run.device)
    writes = run.has("compile.graphs_skipped")

    def forward(x, total):
        for layer in layers:
            x = torch.relu(layer(x))
        total = total.add_(x.detach().mean()) if writes else total + x.detach().mean()
        return x.square().mean(), total

    options = {"mode": "reduce-overhead"} if run.is_gpu else {"backend": "aot_eager"}
    compiled = torch.compile(forward, **options)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    batch = torch.randn(64, 128, device=run.device)
    total = torch.zeros((), device=run.device)
    while True:
        loss, total = compiled(batch, total.clone())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
