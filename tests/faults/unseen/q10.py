"""Evaluation loop of a 2x super-resolution network: PSNR and SSIM on 8-bit images (the usual
protocol)."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.c2(F.relu(self.c1(x), inplace=True))


class EDSR(nn.Module):
    def __init__(self, ch, blocks):
        super().__init__()
        self.head = nn.Conv2d(3, ch, 3, padding=1)
        self.body = nn.Sequential(
            *[ResBlock(ch) for _ in range(blocks)], nn.Conv2d(ch, ch, 3, padding=1)
        )
        self.tail = nn.Sequential(nn.Conv2d(ch, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        f = self.head(x)
        return self.tail(f + self.body(f)) * 0.1 + F.interpolate(x, scale_factor=2, mode="bilinear")


def tensor2img(t):
    """Network output -> 8-bit images, as they would be written to disk."""
    return t.clamp_(0, 1).mul_(255).round_().to(torch.uint8)


def to_y(img):
    r, g, b = img.float().unbind(1)
    return (65.481 * r + 128.553 * g + 24.966 * b).div(255).add(16).unsqueeze(1)


def psnr(a, b):
    return 10 * torch.log10(255.0**2 / (a - b).square().mean((1, 2, 3)))


def ssim(a, b, win):
    def conv(x):
        return F.conv2d(F.conv2d(x, win[None, None, None]), win[None, None, :, None])

    stats = conv(torch.cat([a, b, a * a, b * b, a * b]))
    ma, mb, aa, bb, ab = stats.chunk(5)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    num = (2 * ma * mb + c1) * (2 * (ab - ma * mb) + c2)
    den = (ma * ma + mb * mb + c1) * (aa - ma * ma + bb - mb * mb + c2)
    return (num / den).mean((1, 2, 3))


@torch.inference_mode()
def evaluate(model, gts, args, dev):
    cuda = dev.type == "cuda"
    win = torch.exp(-((torch.arange(11, device=dev) - 5.0) ** 2) / (2 * 1.5**2))
    win /= win.sum()
    dtype = next(model.parameters()).dtype
    scores, warm = [], min(10, args.steps - 1)
    for step in range(args.steps):
        if step == warm:
            if cuda:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
        gt = gts[step % len(gts)].to(dev, non_blocking=True)
        lr = F.avg_pool2d(gt.float().div_(255), 2)
        sr = model(lr.to(dtype, memory_format=torch.channels_last))
        sr = sr.float().contiguous()
        if args.good:
            img = tensor2img(sr)
        else:
            img = tensor2img(sr.cpu()).to(dev)
        a, b = to_y(img), to_y(gt)
        scores.append(torch.stack([psnr(a, b), ssim(a, b, win)]))
    if cuda:
        torch.cuda.synchronize()
    ms = (time.perf_counter() - t0) * 1e3 / (args.steps - warm)
    mean = torch.cat(scores, 1).mean(1).tolist()
    return mean, ms


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--steps", type=int, default=45, help="batches evaluated")
    p.add_argument("--bad", action="store_true")
    p.add_argument("--good", action="store_true")
    args = p.parse_args()
    dev = torch.device(args.device)
    cuda = dev.type == "cuda"
    batch, side, ch, blocks = (8, 512, 64, 16) if cuda else (2, 64, 16, 2)
    torch.manual_seed(0)
    model = EDSR(ch, blocks).eval().to(dev, torch.float16 if cuda else torch.float32)
    model = model.to(memory_format=torch.channels_last)
    low = torch.rand(8 * batch, 3, side // 8, side // 8, generator=torch.Generator().manual_seed(4))
    gts = F.interpolate(low, scale_factor=8, mode="bicubic").clamp(0, 1).mul(255).to(torch.uint8)
    gts = list((gts.pin_memory() if cuda else gts).split(batch))
    (p_mean, s_mean), ms = evaluate(model, gts, args, dev)
    print(f"PSNR {p_mean:.3f} SSIM {s_mean:.4f}")
    print(f"step_ms {ms:.3f}")


if __name__ == "__main__":
    main()
