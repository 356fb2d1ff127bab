"""Sends its loss to a dashboard. Bad: waits for the answer in each step. Good: a thread sends what
has come together."""

import queue
import threading
import time

import torch
from torch import nn
from twin import Twin


class Dashboard:
    def __init__(self):
        self.sent = []

    def post(self, values):
        # planted: host.python_gap
        time.sleep(0.012)  # the server answers after 12 ms
        self.sent.extend(values)


class InBackground:
    def __init__(self, dashboard):
        self.dashboard = dashboard
        self.waiting = queue.SimpleQueue()
        threading.Thread(target=self._send, daemon=True).start()

    def post(self, values):
        self.waiting.put(values)

    def _send(self):
        while True:
            self.dashboard.post(self.waiting.get())


def main():
    run = Twin("host.python_gap")
    dashboard = Dashboard() if run.has("host.python_gap") else InBackground(Dashboard())
    model = nn.LSTM(32, 48, batch_first=True).to(run.device)
    optimizer = torch.optim.Adam(model.parameters())
    series = torch.randn(16, 20, 32, device=run.device)
    while True:
        loss = model(series)[0].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dashboard.post([loss.detach()])
        if run.step():
            break


if __name__ == "__main__":
    main()
