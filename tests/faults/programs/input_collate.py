"""A table of many small rows. Bad: the loader fetches them one by one and joins thousands of
tensors to a batch. Good: the dataset gives the rows of a batch at once."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from twin import Twin

ROWS, COLUMNS = 2048, 24
PADDING = torch.zeros(8)


class Table(Dataset):
    def __init__(self, count):
        self.rows = list(torch.randn(count, COLUMNS).unbind())

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class WholeBatches(Dataset):
    def __init__(self, count):
        self.values = torch.cat([torch.randn(count, COLUMNS), PADDING.expand(count, -1)], dim=1)

    def __len__(self):
        return len(self.values)

    def __getitems__(self, indices):
        return self.values[torch.tensor(indices)]


def join(rows):
    # planted: input.starved
    return torch.stack([torch.cat([row, PADDING]) for row in rows])


def as_it_is(batch):
    return batch


def main():
    run = Twin("input.starved", steps=30)
    if run.has("input.starved"):
        data, collate = Table(ROWS * 4), join
    else:
        data, collate = WholeBatches(ROWS * 4), as_it_is
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 64)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    is_over = False
    while not is_over:
        for batch in DataLoader(data, batch_size=ROWS, collate_fn=collate, shuffle=True):
            loss = model(batch.to(run.device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            is_over = run.step()
            if is_over:
                break


if __name__ == "__main__":
    main()
