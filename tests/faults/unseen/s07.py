"""Speech recogniser: convolution front, self-attention encoder, CTC loss on made-up sounds."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS = 32


class SelfAttention(nn.Module):
    def __init__(self, width, heads, by_formula):
        super().__init__()
        self.heads, self.by_formula = heads, by_formula
        self.enter = nn.Linear(width, 3 * width)
        self.leave = nn.Linear(width, width)

    def forward(self, x):
        batch, frames, width = x.shape
        parts = self.enter(x).view(batch, frames, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        if self.by_formula:
            scores = torch.matmul(q, k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
            mixed = torch.matmul(torch.softmax(scores, dim=-1), v)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return self.leave(mixed.transpose(1, 2).reshape(batch, frames, width))


class EncoderBlock(nn.Module):
    def __init__(self, width, heads, by_formula):
        super().__init__()
        self.norm_one, self.norm_two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, by_formula)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm_one(x))
        return x + self.feed(self.norm_two(x))


class Recogniser(nn.Module):
    def __init__(self, bands, width, heads, layers, by_formula):
        super().__init__()
        self.front = nn.Conv1d(bands, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(EncoderBlock(width, heads, by_formula) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.letters = nn.Linear(width, SYMBOLS)

    def forward(self, sound):
        x = F.silu(self.front(sound)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return F.log_softmax(self.letters(self.norm(x)), dim=-1)


def make_sounds(count, bands, frames, letters, seed):
    """Each letter holds one row of bands for a while; noise lies over all of it."""
    draw = torch.Generator().manual_seed(seed)
    text = torch.randint(1, SYMBOLS, (count, letters), generator=draw)
    voices = torch.randn(SYMBOLS, bands, generator=draw)
    sound = voices[text].repeat_interleave(frames // letters, dim=1)
    sound = sound + 0.3 * torch.randn(sound.shape, generator=draw)
    return sound.transpose(1, 2).contiguous(), text


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(31)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        width, heads, layers, batch, frames, letters = 512, 8, 8, 8, 4096, 64
    else:
        width, heads, layers, batch, frames, letters = 64, 8, 2, 1, 1280, 32
    model = Recogniser(40, width, heads, layers, by_formula=args.bad).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    sounds, texts = make_sounds(16 * batch, 40, frames, letters, seed=9)
    sounds, texts = sounds.to(device), texts.to(device)
    sound_lengths = torch.full((batch,), frames // 2, dtype=torch.long)
    text_lengths = torch.full((batch,), letters, dtype=torch.long)

    spent = []
    for step in range(args.steps):
        begin = time.perf_counter()
        part = slice((step % 16) * batch, (step % 16 + 1) * batch)
        scores = model(sounds[part]).transpose(0, 1)
        loss = F.ctc_loss(scores, texts[part], sound_lengths, text_lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
        spent.append(1000 * (time.perf_counter() - begin))
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
