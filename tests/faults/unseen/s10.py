"""Continue long melodies with a small causal decoder, one event for each melody at a time."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class LayerMemory:
    """What one layer knows of the events so far."""

    def __init__(self):
        self.keys = self.values = None

    def add(self, keys, values):
        if self.keys is None:
            self.keys, self.values = keys, values
        else:
            self.keys = torch.cat([self.keys, keys], dim=2)
            self.values = torch.cat([self.values, values], dim=2)
        return self.keys, self.values


class SongMemory:
    """What one layer knows of a whole song."""

    def __init__(self, batch, heads, room, width, device):
        self.keys = torch.zeros(batch, heads, room, width, device=device)
        self.values = torch.zeros_like(self.keys)
        self.used = 0

    def add(self, keys, values):
        end = self.used + keys.shape[2]
        self.keys[:, :, self.used : end] = keys
        self.values[:, :, self.used : end] = values
        self.used = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class DecoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_one, self.norm_two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x, memory):
        batch, length, width = x.shape
        parts = self.enter(self.norm_one(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        keys, values = memory.add(k, v)
        mixed = F.scaled_dot_product_attention(q, keys, values, is_causal=length > 1)
        x = x + self.leave(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm_two(x))


class Composer(nn.Module):
    def __init__(self, events, width, heads, layers, room):
        super().__init__()
        self.events = nn.Embedding(events, width)
        self.places = nn.Embedding(room, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, events)

    def forward(self, tokens, first, memories):
        places = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        x = self.events(tokens) + self.places(places)
        for block, memory in zip(self.blocks, memories, strict=True):
            x = block(x, memory)
        return self.head(self.norm(x[:, -1]))


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    torch.manual_seed(29)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    width, heads, layers, batch, opening = (
        (1024, 16, 12, 32, 3072) if device.type == "cuda" else (128, 4, 3, 8, 640)
    )
    room = opening + args.steps
    model = Composer(400, width, heads, layers, room).to(device).eval()
    if args.bad:
        memories = [LayerMemory() for _ in range(layers)]
    else:
        memories = [SongMemory(batch, heads, room, width // heads, device) for _ in range(layers)]
    tokens = torch.randint(0, 400, (batch, opening), device=device)
    scores = model(tokens, 0, memories)

    spent, surprise = [], torch.zeros((), device=device)
    for step in range(args.steps):
        begin = time.perf_counter()
        chances = scores.softmax(dim=-1)
        tokens = torch.multinomial(chances, 1)
        surprise -= chances.gather(1, tokens).log().mean()
        scores = model(tokens, opening + step, memories)
        if step % 20 == 19:
            print(f"event {step + 1} surprise {surprise.item() / (step + 1):.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
