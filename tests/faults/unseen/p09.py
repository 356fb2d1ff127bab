"""Anchor-based object detector on synthetic scenes: backbone, dense head, target assignment,
loss."""

import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

IMG, STRIDE, SCALES = 128, 16, (24.0, 48.0)


def make_anchors():
    boxes = []
    for y in range(IMG // STRIDE):
        for x in range(IMG // STRIDE):
            cx, cy = (x + 0.5) * STRIDE, (y + 0.5) * STRIDE
            boxes += [(cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2) for s in SCALES]
    return boxes


def iou(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    inter = w * h
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def assign_loop(anchors, batch):
    """For every image and anchor: the ground-truth box with the best overlap."""
    labels, offsets = [], []
    for boxes in batch:
        row_labels, row_offsets = [], []
        for anchor in anchors:
            scores = [iou(anchor, box) for box in boxes]
            best = max(range(len(boxes)), key=scores.__getitem__)
            row_labels.append(1.0 if scores[best] > 0.4 else 0.0)
            row_offsets.append(
                [(g - a) / STRIDE for g, a in zip(boxes[best], anchor, strict=False)]
            )
        labels.append(row_labels)
        offsets.append(row_offsets)
    return torch.tensor(labels), torch.tensor(offsets)


def assign_tensor(anchors, batch):
    gt = torch.tensor(batch)[:, None]
    an = anchors[None, :, None]
    wh = (torch.minimum(an[..., 2:], gt[..., 2:]) - torch.maximum(an[..., :2], gt[..., :2])).clamp(
        min=0
    )
    inter = wh.prod(-1)
    area = (an[..., 2:] - an[..., :2]).prod(-1) + (gt[..., 2:] - gt[..., :2]).prod(-1)
    score, best = (inter / (area - inter)).max(-1)
    chosen = gt.squeeze(1).gather(1, best.unsqueeze(-1).expand(-1, -1, 4))
    return (score > 0.4).float(), (chosen - anchors) / STRIDE


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        layers, cin = [], 3
        for cout in (16, 32, 48, 64):
            layers += [nn.Conv2d(cin, cout, 3, 2, 1), nn.BatchNorm2d(cout), nn.ReLU()]
            cin = cout
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Conv2d(cin, len(SCALES) * 5, 3, padding=1)

    def forward(self, x):
        out = self.head(self.backbone(x)).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 5)
        return out[..., 0], out[..., 1:]


def scenes(rng, n):
    out = []
    for _ in range(n):
        boxes = []
        for _ in range(8):
            s, x, y = rng.uniform(16, 60), rng.uniform(0, 68), rng.uniform(0, 68)
            boxes.append((x, y, x + s, y + s))
        out.append(boxes)
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--bad", action="store_true")
    ap.add_argument("--good", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    anchors = make_anchors()
    anchor_tensor = torch.tensor(anchors)
    images = torch.randn(64, 3, IMG, IMG)
    truth = scenes(rng, 64)
    model = Detector()
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    start = time.perf_counter()
    for step in range(args.steps):
        if step == 10:
            start = time.perf_counter()
        lo = (step * 16) % 64
        scores, deltas = model(images[lo : lo + 16])
        if args.good:
            labels, offsets = assign_tensor(anchor_tensor, truth[lo : lo + 16])
        else:
            labels, offsets = assign_loop(anchors, truth[lo : lo + 16])
        box_loss = F.smooth_l1_loss(deltas, offsets, reduction="none").sum(-1)
        loss = F.binary_cross_entropy_with_logits(scores, labels) + (
            box_loss * labels
        ).sum() / labels.sum().clamp(min=1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    took = time.perf_counter() - start
    print(f"loss {loss.item():.4f}")
    print(f"step_ms {took * 1000 / max(1, args.steps - 10):.2f}")


if __name__ == "__main__":
    main()
