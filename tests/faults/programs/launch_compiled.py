"""A deep net of small layers, compiled. Bad: each fused kernel is launched by itself. Good: the
mode reduce-overhead launches a CUDA graph of them."""

import torch
from torch import nn
from twin import Twin


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.inputs = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.gelu(self.inputs(self.norm(x)))


def main():
    run = Twin("launch.bound")
    torch.set_float32_matmul_precision("high")
    width = run.pick(16, 256)
    model = nn.Sequential(*(Layer(width) for _ in range(run.pick(2, 12)))).to(run.device)
    mode = "default" if run.has("launch.bound") else "reduce-overhead"
    how = {"mode": mode} if run.is_gpu else {"backend": "aot_eager"}
    compiled = torch.compile(model, **how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(run.pick(4, 64), width, device=run.device)
    while True:
        loss = compiled(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
