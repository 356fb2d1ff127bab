"""Three faults at once: large batches from pageable memory, values read in each step, and an
optimizer that updates one parameter after the other."""

import torch
from torch import nn
from twin import Twin


def main():
    run = Twin("copy.pageable", "sync.host", "optimizer.unfused")
    torch.set_float32_matmul_precision("high")
    width = run.pick(64, 1024)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(32)]
    model = nn.Sequential(*blocks).to(run.device)
    kind = {"foreach": False} if run.has("optimizer.unfused") else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **kind)
    is_pageable = run.has("copy.pageable")
    batch = torch.randn(run.pick(64, 8192), width)
    batch = batch if is_pageable or not run.is_gpu else batch.pin_memory()
    while True:
        here = batch.to(run.device, non_blocking=not is_pageable)
        loss = model(here).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.has("sync.host"):
            norms = [float(parameter.grad.norm()) for parameter in model.parameters()]
            if max(norms) > 1e6:
                raise RuntimeError("training diverged")
        if run.step():
            break


if __name__ == "__main__":
    main()
