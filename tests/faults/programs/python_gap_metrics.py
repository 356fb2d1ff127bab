"""Counts a confusion matrix. Bad: in Python, example by example, each step. Good: with tensors."""

import torch
from torch import nn
from twin import Twin

CLASSES = 20


def count_slowly(matrix, predicted, labels):
    # planted: host.python_gap
    for guess, truth in zip(predicted.tolist(), labels.tolist(), strict=True):
        row = matrix.setdefault(truth, {})
        row[guess] = row.get(guess, 0) + 1
    return sum(row.get(truth, 0) for truth, row in matrix.items())


def count_at_once(matrix, predicted, labels):
    matrix += torch.bincount(labels * CLASSES + predicted, minlength=CLASSES**2)
    return matrix


def main():
    run = Twin("host.python_gap")
    batch = run.pick(20_000, 100_000)
    model = nn.Linear(32, CLASSES).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    is_slow = run.has("host.python_gap")
    matrix = {} if is_slow else torch.zeros(CLASSES**2, dtype=torch.long, device=run.device)
    features = torch.randn(batch, 32, device=run.device)
    labels = torch.randint(0, CLASSES, (batch,), device=run.device)
    while True:
        scores = model(features)
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        (count_slowly if is_slow else count_at_once)(matrix, scores.argmax(1), labels)
        if run.step():
            break


if __name__ == "__main__":
    main()
