#!/usr/bin/env python3
"""A training gives the same losses to the last bit with and without everything that is recorded.

    same_losses.py KSCOPE [--device cuda|cpu]

The training (this file with --train) runs twice as it is, with torch's deterministic algorithms,
and twice under `kscope run --record regions,functions,samples,monitor` with a profiled window in
the middle. All four must print the same. The exit status is 1 when they do not.
"""

import argparse
import os
import pathlib
import sys
import tempfile

from commands import call

STEPS = 60
WINDOW = "12:2:6"


def train(device):
    import torch
    from torch import nn

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 64, 10),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kscope", nargs="?")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--train", action="store_true")
    options = parser.parse_args()
    if options.train:
        return train(options.device)
    env = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "KSCOPE_PYTHON": sys.executable}
    program = [sys.executable, pathlib.Path(__file__).resolve(), "--train"]
    program += ["--device", options.device]
    record = ["--steps", WINDOW, "--record", "regions,functions,samples,monitor"]
    printed = []
    with tempfile.TemporaryDirectory(prefix="same-losses-") as folder:
        for turn in range(2):
            out = pathlib.Path(folder) / str(turn)
            printed.append(call(*program, env=env))
            printed.append(
                call(options.kscope, "run", *record, "--out", out, "--", *program, env=env)
            )
            if not list(out.glob("*.pt.trace.json*")) or not list(out.glob("*.ksrec")):
                sys.exit("no window or no recording: nothing was shown")
    losses = [text.split() for text in printed]
    same = all(these == losses[0] for these in losses)
    print(f"{len(losses[0])} losses, {'the same four times' if same else 'not the same'}")
    return 0 if same and len(losses[0]) == STEPS else 1


if __name__ == "__main__":
    sys.exit(main())
