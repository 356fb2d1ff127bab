#!/usr/bin/env python3
"""Trains a small language model on text that it makes itself; `--fault` plants what slows it down.

Without faults this is how a training loop should look: documents are tokenised in worker processes,
copies come from pinned memory and block nobody, matrix products are bf16 on the GPU, and the host
reads nothing back but a loss every 20 steps, so that it stays ahead of the GPU. Each fault is one
place, marked `# fault: ID`, with the repair beside it:

    kscope run examples/train_text.py --fault sync.host
    python3 examples/train_text.py --fault input.starved,host.python_gap
    python3 examples/train_text.py

On a CPU only input.starved and host.python_gap cost anything; the others say so on stderr. The last
line gives the median over the steps after the first ones: `median_step_ms N tokens_per_s M`.
"""

import argparse
import os
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

# Why a fault cannot show on a CPU; None where it can.
FAULTS = {
    "input.starved": None,
    "host.python_gap": None,
    "sync.host": "results are there when an operator returns, reading them waits for nothing",
    "launch.bound": "operators run where they are called, nothing is launched",
    "precision.fp32_matmul": "matrix products are fp32 with and without it",
    "copy.pageable": "nothing is copied to a device",
    "copy.many_small": "nothing is copied to a device",
    "device.round_trip": "there is no other device to go to",
}
VOCABULARY = 512  # 256 bytes, and as many longer pieces
PIECE_CHARS_MAX = 6
DOCUMENTS = 128
DECAY = 0.5  # of the running average over positions
NOISE_SCALE = 5.0  # alpha of noisy embeddings: keeps a small corpus from being learnt by heart
NOISE_TENSORS = 2
TOP = 5
ROUND_TRIP_S = 0.001  # to where the documents lie, for one of them; takes no CPU
GAP_S = 0.030
TOKENS_PER_COPY = 32
LOG_STEPS = 20
WARM_STEPS = 10  # not counted: workers start, memory is allocated, kernels are loaded


@dataclass
class Size:
    width: int
    layers: int
    heads: int
    context: int
    batch: int
    document_chars: int
    learning_rate: float


SIZES = {
    "tiny": Size(64, 2, 2, 64, 8, 1200, 3e-3),
    "small": Size(128, 2, 4, 128, 16, 6000, 2e-3),
    # An H100 takes several times as long for a step as the host for launching it.
    "base": Size(1024, 4, 16, 512, 32, 4000, 5e-4),
}


# ---------------------------------------------------------------- text


def make_document(index, chars, seed):
    """Who has what, asked again at once: letters, words and answers can all be predicted."""
    chance = random.Random(f"{seed} {index}")
    names = chance.sample(("anna", "bert", "carla", "dmitri", "elif", "farid", "greta"), 3)
    lines, length = [], 0
    while length < chars:
        name, other = chance.sample(names, 2)
        colour = chance.choice(("red", "green", "blue", "yellow"))
        thing = chance.choice(("box", "lamp", "stone", "letter", "bicycle"))
        place = chance.choice(("garden", "kitchen", "market", "station"))
        line = (
            f"{name} has the {colour} {thing} in the {place}, {other} does not. "
            f"who has the {colour} {thing}? {name}.\n"
        )
        lines.append(line)
        length += len(line)
    return "".join(lines)


class Tokeniser:
    """Bytes, and the pieces that save most in a sample; the longest piece that fits is taken."""

    def __init__(self, sample):
        counts = Counter(
            sample[at : at + length]
            for length in range(2, PIECE_CHARS_MAX + 1)
            for at in range(len(sample) - length)
        )
        best = sorted(counts, key=lambda piece: (-counts[piece] * (len(piece) - 1), piece))
        pieces = [chr(byte) for byte in range(256)] + best[: VOCABULARY - 256]
        self._ids = {piece: number for number, piece in enumerate(pieces)}

    def encode(self, text):
        ids, at, end = [], 0, len(text)
        while at < end:
            length = PIECE_CHARS_MAX
            while length > 1 and text[at : at + length] not in self._ids:
                length -= 1  # planted: input.starved
            ids.append(self._ids[text[at : at + length]])
            at += length
        return ids


class Documents(Dataset):
    """A window of each document; a document is fetched and tokenised when it is asked for."""

    def __init__(self, size, seed):
        self._texts = [make_document(i, size.document_chars, seed) for i in range(DOCUMENTS)]
        self._tokeniser = Tokeniser("".join(text[:100] for text in self._texts))
        self._length = size.context + 1  # inputs and targets are shifted by one

    def __len__(self):
        return DOCUMENTS

    def __getitem__(self, index):
        time.sleep(ROUND_TRIP_S)  # planted: input.starved
        ids = self._tokeniser.encode(self._texts[index])
        begin = index * 37 % (len(ids) - self._length)
        return torch.tensor(ids[begin : begin + self._length])


def make_loader(size, device, options):
    dataset = Documents(size, options.seed)
    sampler = RandomSampler(
        dataset,
        replacement=True,
        num_samples=options.steps * size.batch,
        generator=torch.Generator().manual_seed(options.seed),
    )
    workers = {"num_workers": min(8, max(2, os.cpu_count() or 2)), "prefetch_factor": 4}
    if "input.starved" in options.fault:
        # The training thread fetches and tokenises each batch while the device has nothing to do.
        workers = {"num_workers": 0}  # fault: input.starved
    is_pinned = device.type == "cuda"
    return DataLoader(dataset, size.batch, sampler=sampler, pin_memory=is_pinned, **workers)


# ---------------------------------------------------------------- model


def average_step_by_step(x):
    # One position after the other: each takes tiny kernels that end before the next is launched.
    state = x[:, 0]
    states = []
    for row in x.unbind(1):
        state = torch.lerp(row, state, DECAY)  # fault: launch.bound
        states.append(state)
    return torch.stack(states, 1)


class RunningAverage(nn.Module):
    """Averages over the positions so far, the older the less, by one product with a matrix."""

    def __init__(self, context, is_step_by_step):
        super().__init__()
        self.is_step_by_step = is_step_by_step
        age = torch.arange(context)[:, None] - torch.arange(context)[None, :]
        matrix = torch.where(age < 0, 0.0, (1 - DECAY) * DECAY ** age.clamp(min=0))
        matrix[:, 0] = DECAY ** torch.arange(context)
        self.register_buffer("matrix", matrix, persistent=False)

    def forward(self, x):
        return average_step_by_step(x) if self.is_step_by_step else torch.matmul(self.matrix, x)


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads = size.heads
        self.project_in = nn.Linear(size.width, 3 * size.width)
        self.project_out = nn.Linear(size.width, size.width)

    def forward(self, x):
        parts = self.project_in(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        return self.project_out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, size, faults):
        super().__init__()
        self.attention_norm = nn.LayerNorm(size.width)
        self.average = RunningAverage(size.context, "launch.bound" in faults)
        self.attention = Attention(size)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(size.width),
            nn.Linear(size.width, 4 * size.width),
            nn.GELU(),
            nn.Linear(4 * size.width, size.width),
        )

    def forward(self, x):
        x = x + self.attention(self.average(self.attention_norm(x)))
        return x + self.feed_forward(x)


class TextModel(nn.Module):
    def __init__(self, size, faults):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, size.width)
        self.positions = nn.Parameter(torch.randn(size.context, size.width) * 0.02)
        self.blocks = nn.Sequential(*(Block(size, faults) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.project_out = nn.Linear(size.width, VOCABULARY)

    def forward(self, tokens, noise):
        x = self.tokens(tokens) + self.positions + noise
        return self.project_out(self.norm(self.blocks(x)))


# ---------------------------------------------------------------- from the host to the device


class Noise:
    """Noise for the embeddings, drawn once on the host: the same whichever device trains."""

    def __init__(self, size, device, options):
        self._device = device
        self._is_pageable = "copy.pageable" in options.fault
        generator = torch.Generator().manual_seed(options.seed)
        shape = (size.batch, size.context, size.width)
        scale = NOISE_SCALE / (size.context * size.width) ** 0.5
        self._tensors = []
        for _ in range(NOISE_TENSORS):
            noise = (torch.rand(shape, generator=generator) * 2 - 1) * scale
            noise = noise.to(torch.bfloat16)
            is_pinned = device.type == "cuda" and not self._is_pageable
            self._tensors.append(noise.pin_memory() if is_pinned else noise)

    def fetch(self, number):
        noise = self._tensors[number % NOISE_TENSORS]
        if self._is_pageable:
            # The driver copies through a buffer of its own, piece by piece; the host waits for it.
            return noise.to(self._device)  # fault: copy.pageable
        return noise.to(self._device, non_blocking=True)


def copy_in_pieces(tokens, device):
    # A call and a wait for each few tokens.
    pieces = tokens.flatten().split(TOKENS_PER_COPY)
    pieces = [piece.to(device) for piece in pieces]  # fault: copy.many_small
    return torch.cat(pieces).view(tokens.shape)


def copy_batch(tokens, device, faults):
    if "copy.many_small" in faults:
        return copy_in_pieces(tokens, device)
    return tokens.to(device, non_blocking=True)


# ---------------------------------------------------------------- training


def find_best_on_host(logits):
    # The logits go to the host, their best entries are found there and come back.
    best = logits.cpu().topk(TOP).indices  # fault: device.round_trip
    return best.to(logits.device)


def weigh(logits, targets, faults):
    """Tokens that are among the best guesses already count half."""
    if "device.round_trip" in faults:
        best = find_best_on_host(logits)
    else:
        best = logits.topk(TOP).indices
    is_guessed = (best == targets[..., None]).any(-1)
    return 1 - is_guessed * 0.5


def read_norms(model):
    # The host waits for the GPU at each number that it reads, twice for each parameter.
    norms = {}
    for name, weight in model.named_parameters():
        norms[name] = weight.norm().item(), weight.grad.norm().item()  # fault: sync.host
    return norms


def work_in_python():
    # Work that needs no tensor, where it keeps the next operators from being launched.
    checksum = 0
    until = time.perf_counter() + GAP_S
    while time.perf_counter() < until:
        for number in range(1000):
            checksum = (checksum * 31 + number) % 65521  # fault: host.python_gap


def train_step(model, optimizer, tokens, noise, faults):
    """Returns the mean loss of a token, on the device."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    # The parameters stay fp32. Without autocast the matrix products do, too, at a fraction of the
    # speed of bf16 on tensor cores.
    is_mixed = tokens.is_cuda and "precision.fp32_matmul" not in faults
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=is_mixed):
        logits = model(inputs, noise)  # fault: precision.fp32_matmul
    if "host.python_gap" in faults:
        work_in_python()
    losses = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
    weights = weigh(logits.detach(), targets, faults).flatten()
    optimizer.zero_grad(set_to_none=True)
    ((losses * weights).sum() / weights.sum()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if "sync.host" in faults:
        read_norms(model)
    optimizer.step()
    return losses.detach().mean()


class StepClock:
    """When each step ended on the device. The host never waits for that before the end."""

    def __init__(self, device):
        self._is_cuda = device.type == "cuda"
        self._ends = []

    def mark(self):
        if not self._is_cuda:
            self._ends.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._ends.append(event)

    def steps_ms(self):
        """From the end of one step to the end of the next."""
        pairs = zip(self._ends, self._ends[1:], strict=False)
        if not self._is_cuda:
            return [(end - begin) * 1e3 for begin, end in pairs]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]


def train(size, device, options):
    """Returns the milliseconds of each step but the first."""
    loader = make_loader(size, device, options)
    model = TextModel(size, options.fault).to(device)
    noise = Noise(size, device, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.learning_rate, fused=True)
    clock = StepClock(device)
    for number, tokens in enumerate(loader, start=1):
        tokens = copy_batch(tokens, device, options.fault)
        loss = train_step(model, optimizer, tokens, noise.fetch(number), options.fault)
        clock.mark()
        if number % LOG_STEPS == 0 or number in (1, options.steps):
            print(f"step {number:4}  loss {loss.item():.6f}", flush=True)
    return clock.steps_ms()


def parse_faults(text):
    faults = [word for word in text.split(",") if word]
    for fault in faults:
        if fault not in FAULTS:
            known = ", ".join(FAULTS)
            raise argparse.ArgumentTypeError(f"no fault '{fault}', only {known}")
    return frozenset(faults)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="at least 2 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--size", choices=SIZES, help="default: base on a GPU, small on a CPU")
    parser.add_argument(
        "--fault",
        type=parse_faults,
        default=frozenset(),
        metavar="ID[,ID...]",
        help=f"what to plant: {', '.join(FAULTS)}",
    )
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps must be 2 or more")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU")
    return options


def choose_device(options):
    is_cuda = options.device != "cpu" and torch.cuda.is_available()
    if is_cuda:
        return torch.device("cuda"), torch.cuda.get_device_name()
    # One thread, so that the step costs the same however many cores are busy with other things.
    torch.set_num_threads(1)
    for fault, reason in FAULTS.items():
        if fault in options.fault and reason:
            print(f"train_text: {fault} costs nothing on a CPU: {reason}", file=sys.stderr)
    return torch.device("cpu"), "cpu"


def main():
    options = parse_options()
    device, device_name = choose_device(options)
    size = SIZES[options.size or ("base" if device.type == "cuda" else "small")]
    torch.manual_seed(options.seed)
    print(f"device {device_name}")
    steps_ms = train(size, device, options)
    median_ms = statistics.median(steps_ms[WARM_STEPS - 1 :] or steps_ms)
    tokens_per_s = size.batch * size.context / median_ms * 1e3
    print(f"median_step_ms {median_ms:.3f} tokens_per_s {tokens_per_s:.0f}")


if __name__ == "__main__":
    main()
