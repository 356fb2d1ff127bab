"""A service that sorts short customer messages by intent; a queue brings them in bursts."""

import argparse
import collections
import statistics
import time

import torch
from torch import nn

INTENTS = ["refund", "delivery", "login", "invoice", "cancel", "praise", "fault", "other"]
Message = collections.namedtuple("Message", "number tokens")


class IntentNet(nn.Module):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.02)
        self.mixers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "along": nn.Conv1d(width, width, 3, padding=1, groups=width),
                    "across": nn.Sequential(
                        nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
                    ),
                }
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, len(INTENTS))

    def forward(self, tokens):
        x = self.words(tokens) + self.places
        for mixer in self.mixers:
            y = mixer["along"](mixer["norm"](x).transpose(1, 2)).transpose(1, 2)
            x = x + mixer["across"](y)
        return self.head(x.mean(dim=1)).softmax(dim=-1)


class Inbox:
    """Hands out bursts of messages, each of one fixed length."""

    def __init__(self, vocab, length, burst, seed):
        self.vocab, self.length, self.burst, self.number = vocab, length, burst, 0
        self.draw = torch.Generator().manual_seed(seed)

    def drain(self):
        block = torch.randint(0, self.vocab, (self.burst, self.length), generator=self.draw)
        first, self.number = self.number, self.number + self.burst
        return [Message(first + i, row) for i, row in enumerate(block)]


class Service:
    def __init__(self, model, device):
        self.model, self.device = model, device

    @torch.inference_mode()
    def answer_first_form(self, messages):
        answers = {}
        for message in messages:
            scores = self.model(message.tokens[None].to(self.device))
            answers[message.number] = scores[0]
        return answers

    @torch.inference_mode()
    def answer_second_form(self, messages):
        tokens = torch.stack([message.tokens for message in messages]).to(self.device)
        scores = self.model(tokens)
        return {message.number: row for message, row in zip(messages, scores, strict=True)}


def main():
    parser = argparse.ArgumentParser()
    twin = parser.add_mutually_exclusive_group(required=True)
    twin.add_argument("--bad", action="store_true")
    twin.add_argument("--good", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(41)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cuda = device.type == "cuda"
    vocab, width, layers, length, burst = (30000, 768, 8, 32, 64) if cuda else (5000, 96, 3, 12, 24)
    service = Service(IntentNet(vocab, width, layers, length).to(device).eval(), device)
    inbox = Inbox(vocab, length, burst, seed=12)
    answer = service.answer_first_form if args.bad else service.answer_second_form

    spent, tally = [], collections.Counter()
    for step in range(args.steps):
        messages = inbox.drain()
        begin = time.perf_counter()
        answers = answer(messages)
        best = torch.stack(list(answers.values())).argmax(dim=1).tolist()
        spent.append(1000 * (time.perf_counter() - begin))
        tally.update(INTENTS[i] for i in best)
        if step % 20 == 19:
            word, hits = tally.most_common(1)[0]
            print(f"burst {step + 1} served {inbox.number} top {word} {hits}", flush=True)
    print(f"median {statistics.median(spent):.2f} ms mean {statistics.mean(spent):.2f} ms")


if __name__ == "__main__":
    main()
