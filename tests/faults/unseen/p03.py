"""Keyword spotting on synthetic audio: log-spectrogram, conv + GRU, with activation statistics
per layer."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE, CLASSES = 16000, 12


class ActivationMonitor:
    """Watches outputs of some layers for dead units; the report comes at the end of the epoch."""

    def __init__(self, model, kinds, reduce_now):
        self.records = {}
        self.reduce_now = reduce_now
        for name, module in model.named_modules():
            if isinstance(module, kinds):
                self.records[name] = []
                module.register_forward_hook(self._make_hook(name))

    def _make_hook(self, name):
        def hook(module, inputs, output):
            out = output.detach()
            if self.reduce_now:
                self.records[name].append((out == 0).float().mean().item())
            else:
                self.records[name].append(out)

        return hook

    def report(self):
        text = []
        for name, values in self.records.items():
            if values and torch.is_tensor(values[0]):
                values = [(v == 0).float().mean().item() for v in values]
            text.append(f"{name}: dead {sum(values) / max(1, len(values)):.3f}")
        return ", ".join(text)


class KeywordNet(nn.Module):
    def __init__(self, mels=64, width=96):
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.proj = nn.Linear(201, mels)
        self.conv = nn.Sequential(
            nn.Conv1d(mels, width, 5, padding=2),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2),
            nn.BatchNorm1d(width),
            nn.ReLU(),
        )
        self.gru = nn.GRU(width, 64, batch_first=True)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, wave):
        spec = torch.stft(wave, 400, hop_length=160, window=self.window, return_complex=True).abs()
        feats = torch.log1p(self.proj(spec.transpose(1, 2)).abs()).transpose(1, 2)
        seq, _ = self.gru(self.conv(feats).transpose(1, 2))
        return self.head(seq.mean(1))


def make_clips(n):
    gen = torch.Generator().manual_seed(3)
    labels = torch.randint(0, CLASSES, (n,), generator=gen)
    t = torch.arange(RATE) / RATE
    tone = torch.sin(2 * torch.pi * (200 + 150 * labels[:, None]) * t)
    return tone + 0.3 * torch.randn(n, RATE, generator=gen), labels


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    waves, labels = make_clips(256)
    model = KeywordNet()
    monitor = ActivationMonitor(model, nn.ReLU, reduce_now=args.good)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        lo = (step * 32) % 256
        loss = F.cross_entropy(model(waves[lo : lo + 32]), labels[lo : lo + 32])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(monitor.report())
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
