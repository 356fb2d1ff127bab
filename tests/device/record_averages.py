#!/usr/bin/env python3
"""Records small programs with torch.profiler: each trace, and what torch itself says of it.

    record_averages.py DIR [CASE...]

Writes DIR/<case>.pt.trace.json.gz and DIR/<case>.averages.json.gz, the rows of key_averages() by
name and by input shape, taken from the same profile: two warm-up steps, four kept. Every profile
has shapes, memory and FLOPs on. A case that this machine has no device for is named and left out.
"""

import gzip
import json
import os
import sys
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

STEPS_WARM = 2
STEPS_KEPT = 4


def training(model, optimizer, inputs, loss_of):
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(*inputs)).backward()
        optimizer.step()

    return step


def mean_square(output):
    return output.square().mean()


def mlp(device):
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(512)]
    model = nn.Sequential(*layers, nn.Linear(512, 64)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return training(model, optimizer, [torch.randn(64, 256, device=device)], mean_square)


def conv(device):
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    tail = [nn.Conv2d(32, 64, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, *tail, nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = [torch.randn(16, 3, 64, 64, device=device)]
    labels = torch.arange(16, device=device) % 10
    return training(model, optimizer, inputs, lambda out: F.cross_entropy(out, labels))


def attention(device):
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).to(device)
    optimizer = torch.optim.AdamW(layer.parameters())
    return training(layer, optimizer, [torch.randn(4, 96, 128, device=device)], mean_square)


def optimizer_step(device, **options):
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(12))).to(device)
    optimizer = torch.optim.Adam(model.parameters(), **options)
    return training(model, optimizer, [torch.randn(8, 64, device=device)], mean_square)


def optimizer_foreach(device):
    return optimizer_step(device, foreach=True)


def optimizer_fused(device):
    return optimizer_step(device, fused=True)


def optimizer_single(device):
    return optimizer_step(device, foreach=False)


def inference(device):
    model = nn.Sequential(nn.Embedding(1000, 128), nn.Flatten(), nn.Linear(128 * 32, 100))
    model = model.to(device).eval()
    tokens = torch.randint(1000, (16, 32))

    def step():
        with torch.no_grad():
            best = model(tokens.to(device)).topk(5).values
            return float(best.sum())

    return step


def copies(device):
    """Pageable and pinned copies both ways, a set, a device-to-device copy, a synchronisation."""
    pageable = torch.randn(1 << 18)
    pinned = torch.randn(1 << 18).pin_memory()

    def step():
        first = pageable.to(device)
        second = pinned.to(device, non_blocking=True)
        third = torch.zeros_like(first).copy_(first)
        torch.cuda.synchronize()
        return (first + second + third).cpu()

    return step


def cuda_graph(device):
    model = nn.Sequential(*(nn.Linear(128, 128) for _ in range(6))).to(device)
    static_input = torch.randn(32, 128, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(static_input)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        output = model(static_input)

    def step():
        static_input.copy_(torch.randn(32, 128))
        graph.replay()
        return float(output.sum())

    return step


def two_streams(device):
    first, second = (torch.randn(1024, 1024, device=device) for _ in range(2))
    side = torch.cuda.Stream()

    def step():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            there = second @ second
        here = (first @ first).relu()
        torch.cuda.current_stream().wait_stream(side)
        return float((here + there).sum())

    return step


def two_devices(device):
    first = nn.Linear(512, 512).to("cuda:0")
    second = nn.Linear(512, 512).to("cuda:1")
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)

    def model(x):
        return second(F.relu(first(x)).to("cuda:1"))

    return training(model, optimizer, [torch.randn(64, 512, device="cuda:0")], mean_square)


# How many GPUs a case needs, and what its profile records beyond the rest.
CASES = {
    mlp: (0, {}),
    conv: (0, {}),
    attention: (0, {}),
    optimizer_foreach: (0, {}),
    optimizer_fused: (0, {}),
    optimizer_single: (0, {"with_stack": True}),
    inference: (0, {}),
    copies: (1, {}),
    cuda_graph: (1, {}),
    two_streams: (1, {}),
    two_devices: (2, {}),
}


def rows(averages):
    return [
        {
            "key": row.key,
            "count": row.count,
            "self_cpu": row.self_cpu_time_total,
            "cpu": row.cpu_time_total,
            "self_dev": row.self_device_time_total,
            "dev": row.device_time_total,
            "self_cpu_mem": row.self_cpu_memory_usage,
            "self_dev_mem": row.self_device_memory_usage,
            "flops": row.flops,
            "shapes": str(row.input_shapes),
            "dev_type": str(row.device_type),
            "is_user": row.is_user_annotation,
        }
        for row in averages
    ]


def write_packed(path, data):
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(data)


def record(case, folder, has_gpu, options):
    torch.manual_seed(0)
    base = os.path.join(folder, case.__name__)
    step = case("cuda" if has_gpu else "cpu")
    for _ in range(2):  # kernels load and libraries start outside the profile
        step()

    def keep(profile):
        profile.export_chrome_trace(f"{base}.json")
        averages = {
            "by_name": rows(profile.key_averages()),
            "by_shape": rows(profile.key_averages(group_by_input_shape=True)),
        }
        write_packed(f"{base}.averages.json.gz", json.dumps(averages).encode())
        with open(f"{base}.json", "rb") as file:
            write_packed(f"{base}.pt.trace.json.gz", file.read())
        os.unlink(f"{base}.json")

    activities = [torch.profiler.ProfilerActivity.CPU]
    if has_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    profile = torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=STEPS_WARM, active=STEPS_KEPT, repeat=1),
        on_trace_ready=keep,
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
        **options,
    )
    with profile:
        for _ in range(STEPS_WARM + STEPS_KEPT):
            step()
            profile.step()


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: record_averages.py DIR [CASE...]")
    folder, wanted = sys.argv[1], set(sys.argv[2:])
    if unknown := wanted - {case.__name__ for case in CASES}:
        sys.exit(f"record_averages: no case {', '.join(sorted(unknown))}")
    os.makedirs(folder, exist_ok=True)
    gpu_count = torch.cuda.device_count()
    if not gpu_count:
        torch.set_num_threads(1)
    for case, (gpus_needed, options) in CASES.items():
        if wanted and case.__name__ not in wanted:
            continue
        if gpus_needed > gpu_count:
            print(f"skipped {case.__name__}: needs {gpus_needed} CUDA devices, here {gpu_count}")
            continue
        with torch.cuda.device(0) if gpu_count else nullcontext():
            record(case, folder, gpu_count > 0, options)
        print(f"recorded {case.__name__}", flush=True)


if __name__ == "__main__":
    main()
