"""Batched text generation (offline summarisation of long articles) with a small decoder and a
KV cache."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache, start, static):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if static:
            cache["k"][:, :, start : start + t] = k
            cache["v"][:, :, start : start + t] = v
            k, v = cache["k"][:, :, : start + t], cache["v"][:, :, : start + t]
        elif "k" in cache:
            k = cache["k"] = torch.cat([cache["k"], k], dim=2)
            v = cache["v"] = torch.cat([cache["v"], v], dim=2)
        else:
            cache["k"], cache["v"] = k, v
        a = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(a.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attn = Attention(dim, heads)
        self.up, self.down = (
            nn.Linear(dim, 4 * dim, bias=False),
            nn.Linear(4 * dim, dim, bias=False),
        )

    def forward(self, x, cache, start, static):
        x = x + self.attn(self.n1(x), cache, start, static)
        return x + self.down(F.silu(self.up(self.n2(x))))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, heads, layers, ctx):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, caches, start, static):
        x = self.tok(ids) + self.pos.weight[start : start + ids.shape[1]]
        for blk, cache in zip(self.blocks, caches, strict=False):
            x = blk(x, cache, start, static)
        return self.head(self.norm(x[:, -1]))


@torch.inference_mode()
def generate(model, prompt, new_tokens, buffers=None):
    """Greedy decoding. buffers: preallocated K/V (one dict a layer) to be written in place."""
    static = buffers is not None
    caches = buffers if static else [{} for _ in model.blocks]
    logits, pos, out = model(prompt, caches, 0, static), prompt.shape[1], []
    for i in range(new_tokens):
        nxt = logits.argmax(-1, keepdim=True)
        out.append(nxt)
        if i + 1 < new_tokens:
            logits = model(nxt, caches, pos, static)
            pos += 1
    return torch.cat(out, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--steps", type=int, default=45, help="batches of articles")
    for mode in ("--bad", "--good"):
        p.add_argument(mode, action="store_true")
    a = p.parse_args()
    cuda = a.device.startswith("cuda")
    dtype = torch.bfloat16 if cuda else torch.float32
    vocab, dim, heads, layers, batch, plen, new = (
        (32000, 1024, 16, 8, 24, 1536, 24) if cuda else (500, 64, 4, 2, 4, 64, 8)
    )
    torch.manual_seed(0)
    model = Decoder(vocab, dim, heads, layers, plen + new).to(a.device, dtype).eval()
    buffers = None
    if a.good:
        shape = (batch, heads, plen + new, dim // heads)
        buffers = [
            {n: torch.empty(shape, device=a.device, dtype=dtype) for n in "kv"}
            for _ in range(layers)
        ]
    prompts = torch.randint(0, vocab, (4, batch, plen), generator=torch.Generator().manual_seed(7))
    if cuda:
        prompts = prompts.pin_memory()
    warm, total = min(10, a.steps - 1), 0
    for step in range(a.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        ids = prompts[step % len(prompts)].to(a.device, non_blocking=True)
        summary = generate(model, ids, new, buffers).cpu()
        total += int(summary.sum())
    if cuda:
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) * 1e3 / (a.steps - warm)
    print(f"token checksum {total}\nstep_ms {ms:.3f}")


if __name__ == "__main__":
    main()
