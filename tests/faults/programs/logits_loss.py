"""Loss over a large vocabulary. Bad: all logits, and a float copy of them, are in memory. Good: the
loss is compiled, so that the copy is never written."""

import torch
from torch import nn
from torch.nn import functional
from twin import Twin


def loss_of(hidden, weight, targets):
    logits = functional.linear(hidden, weight).float()
    return functional.cross_entropy(logits, targets)


def main():
    run = Twin("loss.logits", steps=30)
    width, vocabulary = run.pick(16, 768), run.pick(32768, 50304)
    tokens = run.pick(8, 8192)
    dtype = run.pick(torch.float32, torch.bfloat16)
    body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    body.to(run.device, dtype)
    head = nn.Linear(width, vocabulary, bias=False, device=run.device, dtype=dtype)
    hidden = torch.randn(tokens, width, device=run.device, dtype=dtype)
    targets = torch.randint(0, vocabulary, (tokens,), device=run.device)
    loss_function = loss_of
    if not run.has("loss.logits"):
        loss_function = torch.compile(loss_of, backend=run.pick("aot_eager", "inductor"))
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    while True:
        loss = loss_function(body(hidden), head.weight, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
