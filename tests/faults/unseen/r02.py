"""Complete lines of code with a small decoder of the Llama kind, greedily, one request a time."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS, LONGEST = 2048, 192, 6, 5, 640
PROMPT = 160


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


def rotate(x, table):
    real, imag = x.chunk(2, dim=-1)
    cos, sin = table
    return torch.cat([real * cos - imag * sin, real * sin + imag * cos], dim=-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_a, self.norm_b = RMSNorm(), RMSNorm()
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.o = nn.Linear(DIM, DIM, bias=False)
        self.gate = nn.Linear(DIM, 3 * DIM, bias=False)
        self.up = nn.Linear(DIM, 3 * DIM, bias=False)
        self.down = nn.Linear(3 * DIM, DIM, bias=False)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, DIM // HEADS).transpose(1, 2)

    def forward(self, x, table, past):
        h = self.norm_a(x)
        q, k, v = self.heads(self.q(h)), self.heads(self.k(h)), self.heads(self.v(h))
        q, k = rotate(q, table), rotate(k, table)
        if past is not None:
            at = past["length"]
            past["k"][:, :, at : at + k.shape[2]] = k
            past["v"][:, :, at : at + v.shape[2]] = v
            past["length"] = at + k.shape[2]
            k, v = past["k"][:, :, : past["length"]], past["v"][:, :, : past["length"]]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        h = self.norm_b(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm()
        turns = 10000 ** (-torch.arange(0, DIM // HEADS, 2) / (DIM // HEADS))
        angles = torch.arange(LONGEST)[:, None] * turns
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, first=0, past=None):
        x = self.embed(ids)
        last = first + ids.shape[1]
        table = self.cos[first:last], self.sin[first:last]
        for i, layer in enumerate(self.layers):
            x = layer(x, table, past[i] if past else None)
        return self.norm(x) @ self.embed.weight.T


def room(batch=1):
    shape = (batch, HEADS, LONGEST, DIM // HEADS)
    return [{"k": torch.zeros(shape), "v": torch.zeros(shape), "length": 0} for _ in range(LAYERS)]


def complete(model, prompt, count, tick):
    ids = prompt
    for _ in range(count):
        following = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following], 1)
        tick()
    return ids


def complete_with_past(model, prompt, count, tick):
    past, new, out = room(), prompt, [prompt]
    for _ in range(count):
        first = past[0]["length"]
        new = model(new, first, past)[:, -1].argmax(-1, keepdim=True)
        out.append(new)
        tick()
    return torch.cat(out, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = Decoder().eval()
    times = []
    run = complete_with_past if args.good else complete
    with torch.no_grad():
        while len(times) < args.steps:
            prompt = torch.randint(0, VOCAB, (1, PROMPT))
            count = min(400, args.steps - len(times))
            ids = run(model, prompt, count, lambda: times.append(time.perf_counter()))
    print("completed", ids.shape[1] - PROMPT)
    print(f"step_ms {(times[-1] - times[9]) * 1000 / (len(times) - 10):.2f}")


if __name__ == "__main__":
    main()
