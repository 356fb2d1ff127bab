"""Fine-grained image classification: ResNet-50 from scratch on compressed images with CPU
augmentation."""

import argparse
import random
import time
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
p.add_argument("--steps", type=int, default=45)
for mode in ("--bad", "--good"):
    p.add_argument(mode, action="store_true")
args = p.parse_args()
dev = torch.device(args.device)
cuda = dev.type == "cuda"
torch.manual_seed(0)
SIDE, CROP, BATCH, CLASSES = (256, 224, 32, 200) if cuda else (80, 64, 8, 10)


class BirdFolder(Dataset):
    """Images are kept losslessly compressed in memory (as in an LMDB/zip archive) and decoded
    on access."""

    def __init__(self, n_files, length):
        g = torch.Generator().manual_seed(1)
        self.length, self.blobs = length, []
        self.labels = torch.randint(0, CLASSES, (n_files,), generator=g).tolist()
        for _ in range(n_files):
            base = F.interpolate(
                torch.rand(1, 3, 20, 20, generator=g), size=(SIDE, SIDE), mode="bilinear"
            )[0]
            img = ((base + 0.03 * torch.rand(3, SIDE, SIDE, generator=g)).clamp(0, 1) * 255).to(
                torch.uint8
            )
            self.blobs.append(zlib.compress(img.numpy().tobytes(), 1))
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        i %= len(self.blobs)
        img = torch.frombuffer(bytearray(zlib.decompress(self.blobs[i])), dtype=torch.uint8).view(
            3, SIDE, SIDE
        )
        s = random.randint(int(SIDE * 0.6), SIDE)
        y, x = random.randint(0, SIDE - s), random.randint(0, SIDE - s)
        img = img[:, y : y + s, x : x + s].float().div_(255)
        img = F.interpolate(img[None], size=(CROP, CROP), mode="bilinear", antialias=True)[0]
        if random.random() < 0.5:
            img = img.flip(-1)
        img = img * random.uniform(0.7, 1.3)
        img = (img - img.mean()) * random.uniform(0.7, 1.3) + img.mean()
        img = torch.lerp(img.mean(0, keepdim=True), img, random.uniform(0.7, 1.3))
        return (img.clamp_(0, 1) - self.mean) / self.std, self.labels[i]


class Bottleneck(nn.Module):
    def __init__(self, cin, mid, stride):
        super().__init__()
        cout = mid * 4
        self.body = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False),
            nn.BatchNorm2d(mid),
            nn.ReLU(True),
            nn.Conv2d(mid, mid, 3, stride, 1, bias=False),
            nn.BatchNorm2d(mid),
            nn.ReLU(True),
            nn.Conv2d(mid, cout, 1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.skip = (
            nn.Identity()
            if cin == cout and stride == 1
            else nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet(blocks, width):
    layers = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]
    cin = width
    for stage, n in enumerate(blocks):
        for b in range(n):
            layers.append(Bottleneck(cin, width << stage, 2 if stage and b == 0 else 1))
            cin = (width << stage) * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, CLASSES))


def main():
    random.seed(0)
    data = BirdFolder(256 if cuda else 32, BATCH * args.steps)
    if args.good:
        loader = DataLoader(
            data,
            batch_size=BATCH,
            shuffle=True,
            drop_last=True,
            pin_memory=cuda,
            num_workers=8 if cuda else 2,
            persistent_workers=True,
            prefetch_factor=4,
        )
    else:
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True, pin_memory=cuda)
    model = resnet([3, 4, 6, 3] if cuda else [1, 1, 1, 1], 64 if cuda else 8)
    model = model.to(dev, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    warm = min(10, args.steps - 1)
    for step, (img, label) in enumerate(loader, 1):
        img, label = img.to(dev, non_blocking=True), label.to(dev, non_blocking=True)
        img = img.contiguous(memory_format=torch.channels_last)
        opt.zero_grad()
        with torch.autocast(dev.type, torch.bfloat16, enabled=cuda):
            loss = F.cross_entropy(model(img), label, label_smoothing=0.1)
        loss.backward()
        opt.step()
        if cuda and step in (warm, args.steps):
            torch.cuda.synchronize()
        if step == warm:
            t0 = time.perf_counter()
    ms = (time.perf_counter() - t0) / (args.steps - warm) * 1e3
    print(f"final loss {loss.item():.4f}\nstep_ms {ms:.3f}")


if __name__ == "__main__":
    main()
