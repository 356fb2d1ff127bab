"""Sample text from a small GPT, token by token, with temperature and top-k."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS, CTX = 4096, 256, 8, 6, 512


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x, cache=None, start=0):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, start : start + t] = k
            cache[1][:, :, start : start + t] = v
            k, v = cache[0][:, :, : start + t], cache[1][:, :, : start + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.proj(y.transpose(1, 2).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, cache, start):
        x = x + self.attn(self.n1(x), cache, start)
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(CTX, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def new_cache(self, batch):
        shape = (batch, HEADS, CTX, DIM // HEADS)
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in self.blocks]

    def forward(self, ids, caches=None, start=0):
        x = self.tok(ids) + self.pos.weight[start : start + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None, start)
        return self.head(self.norm(x[:, -1]))


def pick(logits, temperature=0.8, top_k=40):
    values, index = torch.topk(logits / temperature, top_k)
    return index.gather(-1, torch.multinomial(values.softmax(-1), 1))


@torch.inference_mode()
def sample(model, prompt, tokens, use_cache, clock):
    ids = prompt
    caches = model.new_cache(ids.shape[0]) if use_cache else None
    seen = 0
    for _ in range(tokens):
        if use_cache:
            logits = model(ids[:, seen:], caches, seen)
            seen = ids.shape[1]
        else:
            logits = model(ids)
        ids = torch.cat([ids, pick(logits)], dim=1)
        clock.append(time.perf_counter())
    return ids


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    model = GPT().eval()
    clock, left = [time.perf_counter()], args.steps
    while left > 0:
        count = min(left, 128)
        out = sample(model, torch.randint(0, VOCAB, (4, 48)), count, args.good, clock)
        left -= count
    print("last ids", out[0, -8:].tolist())
    first = min(10, len(clock) - 2)
    print(f"step_ms {(clock[-1] - clock[first]) * 1000 / max(1, len(clock) - 1 - first):.2f}")


if __name__ == "__main__":
    main()
