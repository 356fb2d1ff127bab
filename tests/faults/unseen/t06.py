"""Read lines of handwriting: a convolutional recogniser with CTC on lines of any width."""

import argparse
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

LETTERS = 80


class LineReader(nn.Module):
    """Grey line image (batch, 1, height, width) to letter scores (width / 4, batch, letters)."""

    def __init__(self, channels, height):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * channels, 4 * channels, 3, padding=1)
        self.conv4 = nn.Conv2d(4 * channels, 4 * channels, 3, padding=1)
        self.score = nn.Linear(4 * channels * (height // 8), LETTERS)

    def forward(self, lines):
        x = F.max_pool2d(F.relu(self.conv1(lines)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.conv3(x))
        x = F.max_pool2d(F.relu(self.conv4(x)), (2, 1))
        return self.score(x.flatten(1, 2).permute(2, 0, 1)).log_softmax(dim=2)


class Pages:
    """Batches of lines of about equal width: the batch is as wide as its widest line."""

    def __init__(self, batch, height, widths, device):
        self.batch = batch
        self.height = height
        self.widths = widths
        self.device = device
        self.dice = random.Random(8)
        self.generator = torch.Generator().manual_seed(9)
        self.ink = torch.rand(batch, 1, height, widths[1], generator=self.generator).to(device)

    def __iter__(self):
        return self

    def __next__(self):
        width = 8 * self.dice.randrange(self.widths[0] // 8, self.widths[1] // 8)
        letters = max(2, width // 24)
        text = torch.randint(1, LETTERS, (self.batch, letters), generator=self.generator)
        if self.device.type == "cuda":
            text = text.pin_memory().to(self.device, non_blocking=True)
        lengths = torch.full((self.batch,), letters)
        return self.ink[..., :width].contiguous(), text, lengths


def parse():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=40)
    return parser.parse_args()


def main():
    args = parse()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if args.bad:
        torch.backends.cudnn.benchmark = True
    torch.manual_seed(4)
    if device.type == "cuda":
        pages = Pages(16, 48, (400, 1000), device)
        model = LineReader(48, 48).to(device)
    else:
        pages = Pages(2, 16, (48, 96), device)
        model = LineReader(4, 16).to(device)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    warm = min(4, args.steps // 2)
    for step, (lines, text, lengths) in zip(range(args.steps), pages, strict=False):
        if step == warm:
            if device.type == "cuda":
                torch.cuda.synchronize()
            begin = time.perf_counter()
        scores = model(lines)
        spans = torch.full_like(lengths, scores.shape[0])
        loss = F.ctc_loss(scores, text, spans, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    spent = time.perf_counter() - begin
    print(f"loss {loss.item():.4f}")
    print(f"step_ms {1000 * spent / (args.steps - warm):.3f}")


if __name__ == "__main__":
    main()
