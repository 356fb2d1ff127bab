"""A small training for benches of what runs beside it: a loader, a text model, an optimizer.

Use: training_program.py STEPS    prints how long each step took, in ns by the clock on the wall and
by the CPU clock of its thread, as a JSON list
"""

import json
import sys
import time

import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)
        )

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Training:
    """step() is one step; its batches come from a loader in the same process."""

    def __init__(self, width=64, depth=3, tokens=48, vocabulary=512):
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(vocabulary, width)
        blocks = [Block(width) for _ in range(depth)]
        self.model = torch.nn.Sequential(self.embed, *blocks, torch.nn.Linear(width, vocabulary))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        texts = torch.randint(vocabulary, (64, tokens + 1))
        self.loader = torch.utils.data.DataLoader(list(texts), batch_size=8, shuffle=True)
        self.batches = iter(self.loader)

    def step(self):
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        logits = self.model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def time_steps(training, count):
    """(wall, CPU of this thread) of each step, in ns."""
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns(), time.thread_time_ns()
        training.step()
        times.append((time.perf_counter_ns() - begin[0], time.thread_time_ns() - begin[1]))
    return times


def main(steps):
    torch.set_num_threads(1)
    training = Training()
    time_steps(training, 5)
    print(json.dumps(time_steps(training, int(steps))))


if __name__ == "__main__":
    main(*sys.argv[1:])
