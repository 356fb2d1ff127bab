#!/usr/bin/env python3
"""Plants waits of known length in small programs, and looks for them in the report.

    planted_waits.py KSCOPE DIR            record the programs and check them
    planted_waits.py --check KSCOPE DIR    check what DIR holds

Each program runs twice under torch.profiler, with its waits (DIR/X.planted.pt.trace.json.gz) and
without (DIR/X.control.pt.trace.json.gz). It measures each wait itself; DIR/X.plants.json holds
them, one entry a step: {cause: ns}. The cause in the report, less its median in the control run,
must be the wait within 5 % or 100 us, in the median of the steps. A plant of 0 says that the cause
must not grow by more than 5 % of what else was planted, or 100 us. The device is idle before each
wait begins.

A key "a+b" means the sum of these causes. `in_copies_ns` is time that the host measured around
copies; what the device spent in them is taken off before it is compared.

On a machine without a GPU the programs that need one are named and left out. The last line is
`plants N, wrong M`; the exit status is 0 when N > 0 and M = 0.
"""

import ctypes
import gzip
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

STEPS_WARM = 2
STEPS_KEPT = 4
BATCH = 4
TOLERANCE = 0.05
TOLERANCE_NS = 100_000
COPIES = "in_copies_ns"
COPY_CAUSES = ("sync", "launch", "host_code", "profiler")
CAUSES_KEY = "idle_by_cause_ns"


def timed(call, *arguments):
    began = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - began


# ---------------------------------------------------------------- programs
# Each takes the device and whether to wait, and gives a function that does one step and returns its
# plants. Torch is imported late: checking needs none.


def work_on(device):
    import torch

    size = 1024 if device == "cuda" else 64
    # The product has its place, so that a step asks for no memory beside what is planted.
    left, right, product = (torch.randn(size, size, device=device) for _ in range(3))

    def work():
        torch.mm(left, right, out=product)
        if device == "cuda":
            torch.cuda.synchronize()

    return work


def loader(device, is_planted):
    from torch.utils.data import DataLoader, Dataset

    class Sleepy(Dataset):
        slept_ns = 0

        def __len__(self):
            return BATCH * (STEPS_WARM + STEPS_KEPT)

        def __getitem__(self, index):
            Sleepy.slept_ns += timed(time.sleep, 0.003) if is_planted else 0
            return float(index)

    work = work_on(device)
    batches = iter(DataLoader(Sleepy(), batch_size=BATCH))

    def step():
        Sleepy.slept_ns = 0
        next(batches)
        work()
        return {"data": Sleepy.slept_ns, "host_code": 0}

    return step


def between_operators(device, is_planted):
    work = work_on(device)

    def step():
        work()
        slept_ns = timed(time.sleep, 0.012) if is_planted else 0
        work()
        return {"host_code": slept_ns, "data": 0}

    return step


def item_then_sleep(device, is_planted):
    """The host waits for a busy device, which is no idle time, and then lets it wait."""
    import torch

    work = work_on(device)
    values = torch.ones(1000, device=device)

    def step():
        torch.cuda._sleep(10_000_000)
        values.sum().item()
        slept_ns = timed(time.sleep, 0.012) if is_planted else 0
        work()
        return {"host_code": slept_ns, "sync": 0}

    return step


def host_function():
    """Puts a sleep of some microseconds into the current stream: the device waits for the host."""
    import torch

    maps = pathlib.Path("/proc/self/maps").read_text()
    found = re.search(r"/\S*/libcudart\.so\S*", maps)
    if not found:
        raise RuntimeError("no libcudart in this process")
    launch = ctypes.CDLL(found[0]).cudaLaunchHostFunc
    launch.argtypes = [ctypes.c_void_p] * 3
    # The runtime calls it with one argument, which arrives as the number of microseconds.
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)

    def sleep_in_stream(microseconds):
        stream = torch.cuda.current_stream().cuda_stream
        if launch(stream, usleep, microseconds):
            raise RuntimeError("cudaLaunchHostFunc failed")

    return sleep_in_stream


def synchronise(device, is_planted):
    """The host synchronises while the device waits for a function on the host."""
    import torch

    work, sleep_in_stream = work_on(device), host_function()

    def step():
        work()
        if is_planted:
            sleep_in_stream(10_000)
        waited_ns = timed(torch.cuda.synchronize)
        work()
        return {"sync": waited_ns, "host_code": 0}

    return step


def work_launched_in_time(device, is_planted):
    """The next kernel is queued behind a long one and a function on the host."""
    import torch

    work, sleep_in_stream = work_on(device), host_function()

    def step():
        torch.cuda._sleep(10_000_000)
        if is_planted:
            sleep_in_stream(8_000)
        work()
        return {"kernel_to_kernel": 8_000_000 if is_planted else 0, "host_code": 0}

    return step


def allocator(device, is_planted):
    """Memory is asked of the driver and given back, or comes from torch's cache."""
    import torch

    work = work_on(device)
    size = 512 << 20

    def ask():
        blocks = [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(4)]
        del blocks
        if is_planted:
            torch.cuda.empty_cache()

    def step():
        work()
        asked_ns = timed(ask)
        work()
        return {"allocator": asked_ns}

    return step


def pageable_copies(device, is_planted):
    import torch

    work = work_on(device)
    source = torch.randn(4 << 20)

    def copy_and_work():
        """Behind copies all that the host does next takes longer, as caches are cold: that work is
        timed, too, and in the control run alone."""
        for _ in range(12 if is_planted else 0):
            source.to(device)
        work()

    def step():
        work()
        return {COPIES: timed(copy_and_work), "data": 0}

    return step


# What a program needs.
PROGRAMS = {
    loader: "cpu",
    between_operators: "cpu",
    item_then_sleep: "cuda",
    synchronise: "cuda",
    work_launched_in_time: "cuda",
    allocator: "cuda",
    pageable_copies: "cuda",
}


# ---------------------------------------------------------------- recording


def record(program, device, is_planted, path):
    """Plants of the kept steps."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    step = program(device, is_planted)
    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    plan = schedule(wait=0, warmup=STEPS_WARM, active=STEPS_KEPT, repeat=1)
    plants = []
    with profile(activities=activities, schedule=plan) as recording:
        for _ in range(STEPS_WARM + STEPS_KEPT):
            plants.append(step())
            recording.step()
    plain = path.with_suffix("")
    recording.export_chrome_trace(str(plain))
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(plain.read_bytes())
    plain.unlink()
    if device == "cuda":
        torch.cuda.synchronize()
    return plants[STEPS_WARM:]


def record_all(folder):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for program, needed in PROGRAMS.items():
        name = program.__name__
        if needed == "cuda" and device == "cpu":
            print(f"{name}: left out, it needs a GPU")
            continue
        control = record(program, device, False, folder / f"{name}.control.pt.trace.json.gz")
        plants = record(program, device, True, folder / f"{name}.planted.pt.trace.json.gz")
        text = json.dumps({"control": control, "planted": plants})
        (folder / f"{name}.plants.json").write_text(text)


# ---------------------------------------------------------------- checking


def steps_of(kscope, trace):
    command = [kscope, "report", "--json", trace]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")
    return json.loads(done.stdout)["steps"]


def found_in(step, key):
    causes = COPY_CAUSES if key == COPIES else key.split("+")
    return sum(step[CAUSES_KEY][cause] for cause in causes)


def waits_of(steps, plants, key):
    """What was planted in each step, beyond the control run's."""
    unplanted_ns = statistics.median(one[key] for one in plants["control"])
    copied = [step["breakdown_ns"]["memcpy"] if key == COPIES else 0 for step in steps]
    mine = [one[key] for one in plants["planted"]]
    return [ns - unplanted_ns - taken for ns, taken in zip(mine, copied, strict=True)]


def in_ms(values):
    return " ".join(f"{ns / 1e6:.3f}" for ns in values) + " ms"


def check_program(kscope, folder, name):
    """(plants looked at, sentences about the wrong ones)"""
    plants = json.loads((folder / f"{name}.plants.json").read_text())
    steps = steps_of(kscope, folder / f"{name}.planted.pt.trace.json.gz")
    control = steps_of(kscope, folder / f"{name}.control.pt.trace.json.gz")
    wrong = []
    if not len(steps) == len(control) == len(plants["planted"]) == STEPS_KEPT:
        return 0, [f"{len(steps)} steps, {len(control)} in the control run"]
    for index, step in enumerate(steps):
        causes = step[CAUSES_KEY]
        if sum(causes.values()) != step["idle_ns"] or min(causes.values()) < 0:
            wrong.append(f"step {index}: causes {causes} of {step['idle_ns']} ns")
    wants = {key: waits_of(steps, plants, key) for key in plants["planted"][0]}
    most_ns = max(statistics.median(want) for want in wants.values())
    for key, want in wants.items():
        without_ns = statistics.median(found_in(one, key) for one in control)
        got = [found_in(step, key) - without_ns for step in steps]
        off_ns = statistics.median(g - w for g, w in zip(got, want, strict=True))
        is_nothing = not any(mine[key] for mine in plants["planted"])
        share_ns = TOLERANCE * (most_ns if is_nothing else statistics.median(want))
        print(f"  {key}: {in_ms(got)}, planted {in_ms(want)}")
        if abs(off_ns) > max(share_ns, TOLERANCE_NS):
            wrong.append(f"{key}: off by {off_ns / 1e6:.3f} ms in the median step")
    return sum(len(mine) for mine in plants["planted"]), wrong


def check_all(kscope, folder):
    looked_at, all_wrong = 0, 0
    for path in sorted(folder.glob("*.plants.json")):
        name = path.name.removesuffix(".plants.json")
        print(f"{name}:")
        try:
            count, wrong = check_program(kscope, folder, name)
        except (RuntimeError, ValueError, KeyError, OSError, subprocess.TimeoutExpired) as failure:
            count, wrong = 0, [f"{type(failure).__name__}: {failure}"]
        for line in wrong:
            print(f"  WRONG {line}")
        looked_at += count
        all_wrong += len(wrong)
    print(f"plants {looked_at}, wrong {all_wrong}")
    return 1 if all_wrong or not looked_at else 0


def main():
    words = sys.argv[1:]
    is_check = words[:1] == ["--check"]
    if len(words) != 2 + is_check:
        sys.exit("usage: planted_waits.py [--check] KSCOPE DIR")
    kscope, folder = os.path.abspath(words[-2]), pathlib.Path(words[-1])
    if not is_check:
        record_all(folder)
    return check_all(kscope, folder)


if __name__ == "__main__":
    sys.exit(main())
