"""Blocks as in current language models. Bad: each elementwise operation of the norm, the rotation
and the gate runs by itself. Good: torch.compile fuses them."""

import torch
from torch import nn
from twin import Twin


def norm(x, weight):
    mean = x.float().pow(2).mean(-1, keepdim=True)
    return (x.float() * torch.rsqrt(mean + 1e-6)).to(x.dtype) * weight


def rotate(x, cosine, sine):
    left, right = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-right, left), dim=-1) * sine


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.inputs, self.output = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, cosine, sine):
        gate, value = self.inputs(norm(x, self.weight)).chunk(2, dim=-1)
        return x + self.output(gate * torch.sigmoid(gate) * rotate(value, cosine, sine))


def main():
    run = Twin("fusion.pointwise", steps=40)
    width, length = run.pick(32, 1024), run.pick(16, 2048)
    dtype = run.pick(torch.float32, torch.bfloat16)
    blocks = nn.ModuleList(Block(width) for _ in range(run.pick(1, 6))).to(run.device, dtype)
    angles = torch.randn(length, width, device=run.device)
    cosine, sine = angles.cos().to(dtype), angles.sin().to(dtype)
    batch = torch.randn(run.pick(2, 8), length, width, device=run.device, dtype=dtype)

    def forward(x):
        for block in blocks:
            x = block(x, cosine, sine)
        return x.float().square().mean()

    if not run.has("fusion.pointwise"):
        forward = torch.compile(forward, backend=run.pick("aot_eager", "inductor"))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.01)
    while True:
        loss = forward(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
