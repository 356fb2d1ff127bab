"""Trains on text. Bad: cuts each batch into tokens on the training thread. Good: all text was cut
before training."""

import re

import torch
from torch import nn
from twin import Twin

VOCABULARY = 5000
LENGTH = 128
TEXTS = [
    " ".join(f"word{(i * 7 + at * at) % 3000}-{at % 11}" for at in range(LENGTH * 3))
    for i in range(64)
]


class Tokenizer:
    pieces = re.compile(r"\w+?(?=\d|\b)|\d|[^\w\s]")

    def encode(self, text):
        # planted: input.tokenize_inline
        words = self.pieces.findall(text.lower())
        ids = [hash(word) % VOCABULARY for word in words][:LENGTH]
        return ids + [0] * (LENGTH - len(ids))


def main():
    run = Twin("input.tokenize_inline")
    tokenizer = Tokenizer()
    is_inline = run.has("input.tokenize_inline")
    batch_size = 16
    ahead = None if is_inline else torch.tensor([tokenizer.encode(text) for text in TEXTS])
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, 32), nn.Flatten(), nn.Linear(32 * LENGTH, 32), nn.Linear(32, 2)
    ).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begin = 0
    while True:
        if is_inline:
            texts = TEXTS[begin : begin + batch_size]
            ids = torch.tensor([tokenizer.encode(text) for text in texts])
        else:
            ids = ahead[begin : begin + batch_size]
        begin = (begin + batch_size) % len(TEXTS)
        loss = model(ids.to(run.device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
