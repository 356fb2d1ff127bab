"""Attention with padding. Bad: a dense mask, with the plain backend asked for. Good: the backend
that torch chooses, without a mask that hides nothing."""

import contextlib

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from twin import Twin


def main():
    run = Twin("attention.backend", steps=30)
    heads, length, depth = run.pick(2, 16), run.pick(32, 2048), 64
    project = nn.Linear(depth, 3 * depth).to(run.device)
    optimizer = torch.optim.SGD(project.parameters(), lr=0.01)
    batch = torch.randn(run.pick(1, 4), heads, length, depth, device=run.device)
    is_plain = run.has("attention.backend")
    mask = torch.ones(length, length, dtype=torch.bool, device=run.device) if is_plain else None
    while True:
        with torch.autocast(run.device, dtype=torch.bfloat16):
            q, k, v = project(batch).chunk(3, dim=-1)
            with sdpa_kernel(SDPBackend.MATH) if is_plain else contextlib.nullcontext():
                mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        loss = mixed.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
