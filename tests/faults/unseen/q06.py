"""Audio tagging: log-mel front end + transformer encoder, multi-label, with gradient statistics
logged each step."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
p.add_argument("--steps", type=int, default=45)
for mode in ("--bad", "--good"):
    p.add_argument(mode, action="store_true")
args = p.parse_args()
dev = torch.device(args.device)
cuda = dev.type == "cuda"
BATCH, SECONDS, DIM, HEADS, LAYERS, TAGS = (
    (64, 5, 512, 8, 12, 528) if cuda else (4, 1, 64, 4, 2, 16)
)
SR, N_FFT, HOP, MELS = 16000, 512, 160, 80


def mel_filters():
    hz = torch.linspace(0, SR / 2, N_FFT // 2 + 1)
    top = 2595 * torch.log10(torch.tensor(1 + SR / 2 / 700))
    pts = 700 * (10 ** (torch.linspace(0, 1, MELS + 2) * top / 2595) - 1)
    up = (hz[None] - pts[:-2, None]) / (pts[1:-1] - pts[:-2])[:, None]
    down = (pts[2:, None] - hz[None]) / (pts[2:] - pts[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mel", mel_filters())
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.conv = nn.Conv1d(MELS, DIM, 3, stride=2, padding=1)
        self.pos = nn.Parameter(torch.randn(SECONDS * SR // HOP // 2 + 1, DIM) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, TAGS)

    def forward(self, wave):
        with torch.no_grad(), torch.autocast(dev.type, enabled=False):
            spec = (
                torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True).abs().square()
            )
            x = (self.mel @ spec + 1e-6).log()
        x = F.gelu(self.conv(x)).transpose(1, 2)
        x = x + self.pos[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


@torch.no_grad()
def log_stats(model, history):
    """Norm of every parameter and of its gradient, for the dashboards."""
    names, params = zip(*model.named_parameters(), strict=False)
    if args.good:
        norms = torch._foreach_norm([q.grad for q in params]) + torch._foreach_norm(params)
        history.append(torch.stack(norms))  # stays on the GPU, read when the run is flushed
        return
    row = {}
    for name, q in zip(names, params, strict=False):
        row["grad/" + name] = q.grad.norm().item()
        row["weight/" + name] = q.norm().item()
    history.append(row)


def main():
    torch.manual_seed(0)
    waves = torch.randn(4 * BATCH, SR * SECONDS) * 0.1
    tags = (torch.rand(4 * BATCH, TAGS) < 0.02).float()
    if cuda:
        waves, tags = waves.pin_memory(), tags.pin_memory()
    model = Tagger().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=cuda)
    history, warm = [], min(10, args.steps - 1)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        lo = step % 4 * BATCH
        x, y = (t[lo : lo + BATCH].to(dev, non_blocking=True) for t in (waves, tags))
        opt.zero_grad(set_to_none=True)
        with torch.autocast(dev.type, torch.bfloat16, enabled=cuda):
            loss = F.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        log_stats(model, history)
        opt.step()
    if cuda:
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) * 1e3 / (args.steps - warm)
    last = history[-1]
    print(
        f"loss {loss.item():.4f}, mean norm "
        f"{last.mean() if args.good else sum(last.values()) / len(last):.5f}"
    )
    print(f"step_ms {ms:.3f}")


main()
