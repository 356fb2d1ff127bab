"""Train a next-base model on DNA: a causal transformer over long stretches of A, C, G and T."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).transpose(1, 3).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GenomeModel(nn.Module):
    def __init__(self, width, heads, layers, length):
        super().__init__()
        self.base = nn.Embedding(8, width)
        self.place = nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 8)

    def forward(self, bases):
        x = self.base(bases) + self.place.weight[: bases.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def repeatable(seed, exact):
    """Runs that can be compared: the same draws, and on request no clever attention."""
    torch.manual_seed(seed)
    if exact:
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)


def stretches(genome, length, batch, generator):
    """Windows cut from random places of one long genome that is on the device already."""
    reach = torch.arange(length + 1, device=genome.device)
    while True:
        starts = torch.randint(0, len(genome) - length - 1, (batch, 1), generator=generator)
        if genome.is_cuda:
            starts = starts.pin_memory().to(genome.device, non_blocking=True)
        window = genome[starts + reach]
        yield window[:, :-1], window[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    cuda = device.type == "cuda"
    width, heads, layers, length, batch = (512, 8, 6, 2048, 4) if cuda else (32, 2, 2, 128, 2)
    repeatable(1, exact=args.bad)
    model = GenomeModel(width, heads, layers, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    generator = torch.Generator().manual_seed(2)
    genome = torch.randint(0, 4, (500_000,), generator=generator).to(device)
    data = stretches(genome, length, batch, generator)

    warm = min(5, args.steps // 2)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter()
        bases, following = next(data)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cuda):
            guess = model(bases)
        loss = F.cross_entropy(guess.flatten(0, 1).float(), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if cuda:
        torch.cuda.synchronize()
    spent = time.perf_counter() - begin
    print(f"loss {loss.item():.5f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
