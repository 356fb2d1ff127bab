"""Many small batches an optimizer step, with autocast. Bad: each of them casts all weights anew.
Good: the weights are bf16, and the optimizer has its own float copy."""

import torch
from torch import nn
from twin import Twin

MICRO_STEPS = 8


def main():
    run = Twin("precision.cast_churn", steps=30)
    width = run.pick(32, 4096)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(run.pick(2, 6)))).to(run.device)
    batch = torch.randn(run.pick(4, 64), width, device=run.device)
    is_bad = run.has("precision.cast_churn")
    masters = list(model.parameters())
    if not is_bad:
        masters = [parameter.detach().clone() for parameter in masters]
        model.to(torch.bfloat16)
        batch = batch.to(torch.bfloat16)
    optimizer = torch.optim.SGD(masters, lr=0.01)
    while True:
        for _ in range(MICRO_STEPS):
            with torch.autocast(run.device, dtype=torch.bfloat16, enabled=is_bad):
                loss = model(batch).float().square().mean() / MICRO_STEPS
            loss.backward()
        if not is_bad:
            for master, parameter in zip(masters, model.parameters(), strict=True):
                master.grad = parameter.grad.float()
        optimizer.step()
        optimizer.zero_grad()
        if not is_bad:
            with torch.no_grad():
                torch._foreach_copy_(list(model.parameters()), masters)
            model.zero_grad()
        if run.step():
            break


if __name__ == "__main__":
    main()
