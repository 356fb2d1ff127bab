"""Denoising autoencoder over single-cell gene counts: one input column for each gene."""

import argparse
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    genes: int
    hidden: int
    code: int
    cells: int


LARGE = Shape(genes=20011, hidden=1536, code=128, cells=6144)
SMALL = Shape(genes=203, hidden=32, code=8, cells=32)


def linear(inputs, outputs, used_inputs, used_outputs):
    """A layer whose first rows and columns are drawn as ever; any added ones are zero."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    weight = torch.randn(used_outputs, used_inputs) / used_inputs**0.5
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.weight[:used_outputs, :used_inputs] = weight
    return layer


class CellAutoencoder(nn.Module):
    def __init__(self, shape, columns):
        super().__init__()
        genes, hidden, code = shape.genes, shape.hidden, shape.code
        self.squeeze = linear(columns, hidden, genes, hidden)
        self.encode = linear(hidden, code, hidden, code)
        self.decode = linear(code, hidden, code, hidden)
        self.spread = linear(hidden, columns, hidden, genes)

    def forward(self, counts):
        x = F.relu(self.squeeze(counts))
        x = F.relu(self.decode(self.encode(x)))
        return self.spread(x)


def load_cells(shape, columns, device, dtype, seed):
    """Log counts of cells drawn from a few cell types; added columns hold zeros."""
    generator = torch.Generator(device).manual_seed(seed)
    types = torch.rand(12, shape.genes, device=device, generator=generator)
    kind = torch.randint(0, 12, (shape.cells,), device=device, generator=generator)
    cells = torch.zeros(shape.cells, columns, device=device, dtype=dtype)
    cells[:, : shape.genes] = torch.poisson(2 * types[kind], generator=generator).log1p()
    return cells


class Trainer:
    def __init__(self, shape, columns, device):
        self.device = device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.model = CellAutoencoder(shape, columns).to(device, self.dtype)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, fused=True)
        self.batches = [load_cells(shape, columns, device, self.dtype, s) for s in range(4)]
        self.scale = columns / shape.genes

    def step(self, number):
        cells = self.batches[number % len(self.batches)]
        # the added columns are zero on both sides, so only the mean's divisor has to be mended
        loss = self.scale * F.mse_loss(self.model(cells), cells)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    shape = LARGE if device.type == "cuda" else SMALL
    columns = shape.genes
    if args.good:
        columns = 64 * ((shape.genes + 63) // 64)
    torch.manual_seed(13)
    trainer = Trainer(shape, columns, device)

    warm = min(5, args.steps // 2)
    for number in range(warm):
        trainer.step(number)
    trainer.wait()
    begin = time.perf_counter()
    for number in range(warm, args.steps):
        loss = trainer.step(number)
    trainer.wait()
    spent = time.perf_counter() - begin
    print(f"loss {loss.item():.5f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
