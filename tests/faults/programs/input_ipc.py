"""A worker prepares sentences. Bad: it hands over what it knows of each word as well, thousands of
small objects that the training process unpacks and forgets. Good: it hands over one tensor."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin

WORDS, SENTENCES = 60, 64


class Sentences(Dataset):
    def __init__(self, count, as_objects):
        self.count = count
        self.as_objects = as_objects
        self.ids = torch.arange(SENTENCES * WORDS).remainder(997).reshape(SENTENCES, WORDS)
        self.objects = [
            [{"id": str(word), "at": (row, at)} for at, word in enumerate(words)]
            for row, words in enumerate(self.ids.tolist())
        ]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return (self.ids, self.objects) if self.as_objects else (self.ids, None)


def as_it_is(sample):
    return sample


def main():
    run = Twin("input.starved")
    torch.set_float32_matmul_precision("high")
    data = Sentences(run.steps, run.has("input.starved"))
    loader = DataLoader(
        data, batch_size=None, num_workers=1, persistent_workers=True, collate_fn=as_it_is
    )
    width = run.pick(1536, 8192)
    layers = [nn.Linear(64 * WORDS, width)]
    layers += [nn.Linear(width, width) for _ in range(run.pick(0, 6))]
    model = nn.Sequential(nn.Embedding(997, 64), nn.Flatten(), *layers)
    model.to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # planted: input.starved
    for ids, _ in loader:
        loss = model(ids.to(run.device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
