"""Normalises activations. Bad: with NumPy on the host. Good: on the device."""

import torch
from torch import nn
from twin import Twin


def on_host(hidden):
    values = hidden.detach().cpu()
    low = values.sort(dim=1).values[:, :4].mean(1, keepdim=True)
    return (values - low).tanh().to(hidden.device)


def on_device(hidden):
    low = hidden.detach().topk(4, dim=1, largest=False).values.mean(1, keepdim=True)
    return (hidden.detach() - low).tanh()


def main():
    run = Twin("device.round_trip")
    torch.set_float32_matmul_precision("high")
    width = run.pick(64, 1024)
    first, second = (nn.Linear(width, width).to(run.device) for _ in range(2))
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    batch = torch.randn(run.pick(32, 2048), width, device=run.device)
    normal = on_host if run.has("device.round_trip") else on_device
    while True:
        hidden = first(batch)
        loss = (second(hidden) * normal(hidden)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
