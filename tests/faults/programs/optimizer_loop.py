"""A deep net with many small parameters. Bad: AdamW updates one after the other. Good: fused."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("optimizer.unfused")
    is_loop = run.has("optimizer.unfused")
    width = run.pick(32, 256)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(40)]
    model = nn.Sequential(*blocks).to(run.device)
    kind = {"foreach": False} if is_loop else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **kind)
    batch = torch.randn(run.pick(16, 256), width, device=run.device)
    while True:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
