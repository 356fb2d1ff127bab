"""Train a small residual CNN on a folder of compressed image arrays with the usual augmentation."""

import argparse
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class FolderDataset(Dataset):
    """Each file is a compressed uint8 HWC array; augmentation happens at access."""

    def __init__(self, root, length, size=64, keep_decoded=False):
        self.files = sorted(os.path.join(root, f) for f in os.listdir(root))
        self.length, self.size = length, size
        self.decoded = {} if keep_decoded else None

    def __len__(self):
        return self.length

    def _read(self, k):
        if self.decoded is not None and k in self.decoded:
            return self.decoded[k]
        with np.load(self.files[k]) as z:
            item = z["img"], int(z["label"])
        if self.decoded is not None:
            self.decoded[k] = item
        return item

    def _resized_crop(self, img, rng):
        h, w, _ = img.shape
        side = int(rng.uniform(0.6, 1.0) * min(h, w))
        y, x = rng.integers(0, h - side + 1), rng.integers(0, w - side + 1)
        crop = img[y : y + side, x : x + side].astype(np.float32)
        pos = np.linspace(0, side - 1, self.size)
        lo = pos.astype(int)
        hi = np.minimum(lo + 1, side - 1)
        fy = (pos - lo)[:, None, None].astype(np.float32)
        fx = (pos - lo)[None, :, None].astype(np.float32)
        rows = crop[lo] * (1 - fy) + crop[hi] * fy
        return rows[:, lo] * (1 - fx) + rows[:, hi] * fx

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        img, label = self._read(i % len(self.files))
        img = self._resized_crop(img, rng)
        if rng.random() < 0.5:
            img = img[:, ::-1]
        img = np.clip(img * rng.uniform(0.8, 1.2) + rng.uniform(-16, 16), 0, 255)
        img = (img / 255.0 - 0.5) / 0.25
        return torch.from_numpy(
            np.ascontiguousarray(img.transpose(2, 0, 1), dtype=np.float32)
        ), label


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm2d(cout)
        self.c2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.skip(x))


def make_files(root, n=96):
    rng = np.random.default_rng(0)
    for i in range(n):
        base = rng.integers(0, 255, (20, 20, 3), dtype=np.uint8).repeat(10, 0).repeat(10, 1)
        noise = rng.integers(0, 12, base.shape, dtype=np.uint8)
        np.savez_compressed(os.path.join(root, f"{i:04d}.npz"), img=base // 2 + noise, label=i % 10)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    root = tempfile.mkdtemp(prefix="imgs")
    make_files(root)
    data = FolderDataset(root, args.steps * 32, keep_decoded=args.good)
    if args.good:
        loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, prefetch_factor=4)
    else:
        loader = DataLoader(data, batch_size=32, shuffle=True)
    model = nn.Sequential(
        Block(3, 16, 2),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    start, done = time.perf_counter(), 0
    for images, labels in loader:
        loss = F.cross_entropy(model(images), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        done += 1
        if done == 10:
            start = time.perf_counter()
    print(f"step_ms {(time.perf_counter() - start) * 1000 / max(1, done - 10):.2f}")
    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
