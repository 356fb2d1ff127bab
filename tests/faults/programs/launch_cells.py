"""A recurrent net. Bad: a loop over LSTM cells, thousands of tiny kernels. Good: nn.LSTM."""

import torch
from torch import nn
from twin import Twin


class Loop(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, series):
        state = None
        for moment in series.unbind(1):
            state = self.cell(moment, state)
        return state[0]


class Fused(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, series):
        return self.lstm(series)[0][:, -1]


def main():
    run = Twin("launch.bound")
    width = run.pick(64, 512)
    model = (Loop if run.has("launch.bound") else Fused)(width).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    series = torch.randn(32, run.pick(10, 200), width, device=run.device)
    while True:
        loss = model(series).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.step():
            break


if __name__ == "__main__":
    main()
