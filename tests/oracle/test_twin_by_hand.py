"""The twin itself, on cases whose numbers were worked out on paper (us in the comments)."""

from twin import Twin
from twin_read import parse

US = 1000


def slice_of(cat, name, ts, dur, pid=1, tid=1, **args):
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return event | ({"args": {k.replace("_", " "): v for k, v in args.items()}} if args else {})


def work(cat, name, ts, dur, stream=7, device=0, correlation=None):
    args = {"device": device, "stream": stream}
    args |= {"correlation": correlation} if correlation is not None else {}
    return slice_of(cat, name, ts, dur, pid=device, tid=stream, **args)


def twin_of(*events, **top):
    import json

    return Twin(sources=[parse(json.dumps({**top, "traceEvents": events}))])


def test_streams_that_overlap():
    """Stream 7 works 0-100, 120-200; 20 communicates 80-150; a copy 230-240."""
    twin = twin_of(
        work("kernel", "gemm", 0, 100),
        work("kernel", "gemm", 120, 80),
        work("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 80, 70, stream=20),
        work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 230, 10),
        work("gpu_memset", "Memset (Device)", 240, 0),
        work("gpu_user_annotation", "forward", 0, 240),
        work("cuda_sync", "Event Sync", 0, 500),
    )
    assert twin.devices() == {
        (None, 0): {
            "span_ns": 240 * US,
            "busy_ns": 210 * US,
            "idle_ns": 30 * US,
            "kernel_sum_ns": 250 * US,
            "work_sum_ns": 260 * US,
            "compute_ns": 180 * US,
            "comm_ns": 70 * US,
            "exposed_comm_ns": 20 * US,
        }
    }
    assert twin.streams()[None, 0, 7] == {"busy_ns": 190 * US, "gap_ns": 50 * US}


def test_links_of_a_graph_launch():
    """One call launches two kernels after 40; one kernel is lost, one has no launch."""
    twin = twin_of(
        work("kernel", "orphan", 0, 10, correlation=499),
        slice_of("cuda_runtime", "cudaGraphLaunch", 1000, 30, correlation=501),
        work("kernel", "k1", 1040, 10, correlation=501),
        work("kernel", "k2", 1050, 20, correlation=501),
        slice_of("cuda_runtime", "cudaLaunchKernel", 1100, 5, correlation=502),
        slice_of("cuda_runtime", "cudaStreamSynchronize", 1200, 5, correlation=503),
    )
    counts, delays = twin.links()
    assert delays == [40 * US]
    assert counts == {
        "launches": 2,
        "linked": 2,
        "orphan_gpu_events": 1,
        "launches_without_work": 1,
        "gpu_before_launch": 0,
    }


def test_true_steps_and_their_breakdown():
    """The GPU is the limit: step 1 (host 0-10) lasts until its kernel ends at 100."""
    twin = twin_of(
        slice_of("user_annotation", "ProfilerStep#1", 0, 10),
        slice_of("cpu_op", "aten::mm", 1, 4, External_id=1),
        slice_of("cuda_runtime", "cudaLaunchKernel", 2, 2, correlation=1),
        work("kernel", "k", 20, 80, correlation=1),
        slice_of("user_annotation", "ProfilerStep#2", 10, 10),
        slice_of("cuda_runtime", "cudaLaunchKernel", 12, 2, correlation=2),
        work("kernel", "k", 100, 30, correlation=2),
    )
    first, second = twin.steps()
    assert (first["start"], first["host_ns"], first["dur_ns"]) == (0, 10 * US, 100 * US)
    assert (second["start"], second["dur_ns"]) == (100 * US, 30 * US)
    # 0-1 other, 1-2 cpu, 2-4 runtime, 4-5 cpu, 5-12 other, 12-14 runtime, 14-20 other, 20- kernel
    assert first["breakdown_ns"] == {
        "kernel": 80 * US,
        "memcpy": 0,
        "memset": 0,
        "communication": 0,
        "runtime": 4 * US,
        "dataloader": 0,
        "cpu": 2 * US,
        "other": 14 * US,
    }


def test_call_with_one_child_of_its_name_is_one_call():
    twin = twin_of(
        slice_of("cpu_op", "aten::add", 0, 20, External_id=1),
        slice_of("cpu_op", "aten::add", 2, 10, External_id=2),
        slice_of("cuda_runtime", "cudaLaunchKernel", 3, 4, correlation=1, External_id=2),
        work("kernel", "k", 10, 5, correlation=1)
        | {"args": {"device": 0, "stream": 7, "correlation": 1, "External id": 2}},
    )
    row = twin.operators()["op", "aten::add"]
    assert (row["calls"], row["cpu_ns"], row["self_cpu_ns"]) == (1, 20 * US, 16 * US)
    assert (row["device_ns"], row["self_device_ns"]) == (5 * US, 5 * US)
    assert row["self_exclusive_ns"] == 16 * US  # 20 - 10 outside, 10 - 4 inside


def test_slice_that_ends_after_its_parent_belongs_to_the_one_around():
    """0-30 a, 5-15 b, 10-20 c: c is no child of b."""
    twin = twin_of(
        slice_of("cpu_op", "a", 0, 30),
        slice_of("cpu_op", "b", 5, 10),
        slice_of("cpu_op", "c", 10, 10),
    )
    rows = twin.operators()
    assert rows["op", "a"]["self_cpu_ns"] == 10 * US  # torch subtracts both: 30 - 10 - 10
    assert rows["op", "a"]["self_exclusive_ns"] == 15 * US  # 5-20 is covered
    assert rows["op", "b"]["self_exclusive_ns"] == 10 * US


def test_memory_counts_at_both_ends():
    def memory(ts, size):
        args = {"Device Type": 1, "Bytes": size}
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": ts, "args": args}

    twin = twin_of(
        slice_of("cpu_op", "a", 10, 20, External_id=1),
        slice_of("cpu_op", "b", 15, 5, External_id=2),
        memory(9, 1),
        memory(10, 10),
        memory(20, 100),
        memory(30, 1000),
        memory(31, 10000),
        profile_memory=1,
    )
    rows = twin.operators()
    assert rows["op", "a"]["self_device_bytes"] == 1010
    assert rows["op", "b"]["self_device_bytes"] == 100


def test_flops():
    def flops(name, dims, types=(), concrete=()):
        args = {"Input Dims": dims, "Input type": list(types), "Concrete Inputs": list(concrete)}
        event = slice_of("cpu_op", name, 0, 1) | {"args": args}
        return twin_of(event).operators()["op", name]["flops"]

    assert flops("aten::mm", [[2, 3], [3, 5]]) == 60
    assert flops("aten::addmm", [[5], [2, 3], [3, 5]]) == 60
    assert flops("aten::bmm", [[4, 2, 3], [4, 3, 5]]) == 240
    assert flops("aten::mul", [[4, 2], [2]], ["float", "float"]) == 8
    assert flops("aten::relu", [[4, 2]]) == 0
    # 5 x 5 of a 9 x 9 image: 2 * 2 * 25 * 9 * 4 * 8 / 2 groups
    concrete = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "2"]
    assert flops("aten::conv2d", [[2, 4, 9, 9], [8, 2, 3, 3]], (), concrete) == 14400
