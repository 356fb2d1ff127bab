#!/usr/bin/env python3
"""Write a trace of one shape that makes a careless algorithm slow. Standard library only.

    gen_shapes.py SHAPE EVENTS OUT        gen_shapes.py --list

Each shape is one thing of which a trace has far more than any program makes: open calls, events of
no length, kernels of one launch, tracks, names. EVENTS says about how many events there will be.
The output is a function of the arguments alone.
"""

import gzip
import os
import pathlib
import sys

HOST = '"pid":1,"tid":1'
HEAD = '{"baseTimeNanoseconds":1700000000000000000,"traceEvents":[\n'
SHAPES = {}


def shape(function):
    SHAPES[function.__name__] = function
    return function


# ------------------------------------------------------------------ single events


def us(ns):
    return f"{ns // 1000}.{ns % 1000:03d}"


def x(cat, name, ts, dur, args="", where=HOST):
    """One event; times in ns."""
    tail = f',"args":{{{args}}}' if args else ""
    return f'{{"ph":"X","cat":"{cat}","name":"{name}",{where},"ts":{us(ts)},"dur":{us(dur)}{tail}}}'


def op(name, ts, dur, args="", where=HOST):
    return x("cpu_op", name, ts, dur, args, where)


def frame(name, ts, dur, where=HOST):
    return x("python_function", name, ts, dur, "", where)


def call(ts, dur, corr, name="cudaLaunchKernel", ext=0, where=HOST):
    args = f'"External id":{ext},"correlation":{corr}'
    return x("cuda_runtime", name, ts, dur, args, where)


def gpu(ts, dur, corr, stream=7, cat="kernel", name="k", ext=0, device=0):
    args = f'"device":{device},"stream":{stream},"correlation":{corr},"External id":{ext}'
    return x(cat, name, ts, dur, args, f'"pid":{device},"tid":{stream}')


def step(number, ts, dur):
    return x("user_annotation", f"ProfilerStep#{number}", ts, dur)


# ------------------------------------------------------------------ calls in calls


@shape
def deep_operators(n):
    """Each operator within the one before; every second one waits for the device."""
    for i in range(n // 2):
        yield op(f"op{i % 50}", i * 10, (n - i) * 20)
        yield call(i * 10 + 1, 2, i + 1, "cudaStreamSynchronize")


@shape
def deep_frames(n):
    """Python functions of torch in one another, each with an operator of its own."""
    for i in range(n // 2):
        yield frame(f"torch/nn/modules/module.py({i % 50}): _call_impl", i * 10, (n - i) * 20)
        yield op("aten::add", i * 10 + 1, 2, f'"Sequence number":{i}')


@shape
def deep_steps(n):
    """Steps within steps."""
    for i in range(n):
        yield step(i, i * 10, (n - i) * 20)


@shape
def deep_phases(n):
    """Annotations within annotations, of all kinds."""
    names = ("forward", "backward", "Optimizer.step#Adam.step", "mine")
    yield step(1, 0, n * 30)
    for i in range(n):
        yield x("user_annotation", names[i % 4], i * 10 + 1, (n - i) * 20)


@shape
def stairs(n):
    """Each operator begins in the one before and ends after it."""
    for i in range(n):
        yield op(f"op{i % 50}", i * 10, n * 10)


@shape
def stairs_shrinking(n):
    """Each begins later and ends earlier, a little too late to be within the one before."""
    for i in range(n):
        yield op(f"op{i % 50}", i * 10, n * 10 + (i % 7) * 15)


@shape
def begin_end(n):
    """Begins first, then all the ends."""
    for i in range(n // 2):
        yield f'{{"ph":"B","cat":"cpu_op","name":"op{i % 50}",{HOST},"ts":{us(i * 10)}}}'
    for i in range(n // 2):
        yield f'{{"ph":"E",{HOST},"ts":{us((n + i) * 10)}}}'


@shape
def begin_only(n):
    """Begins without ends."""
    for i in range(n):
        yield f'{{"ph":"B","cat":"cpu_op","name":"op{i % 50}",{HOST},"ts":{us(i * 10)}}}'


@shape
def async_one_id(n):
    """Asynchronous ranges of one id, all open at once."""
    for half, ph in ((0, "b"), (1, "e")):
        for i in range(n // 2):
            yield (
                f'{{"ph":"{ph}","cat":"c","id":1,"name":"a{i % 50}",{HOST},'
                f'"ts":{us((half * n + i) * 10)}}}'
            )


@shape
def ended_regions(n):
    """Regions in one another that end early, in one that goes on with plain operators."""
    yield step(1, 0, n * 20)
    yield x("user_annotation", "forward", 1, n * 20)
    for i in range(n // 2):
        yield x("user_annotation", "forward", i + 2, n - i)
    for i in range(n // 2):
        yield op("aten::mm", n * 2 + i * 10, 5)


# ------------------------------------------------------------------ no length, all at once


@shape
def zero_length(n):
    """Operators of no length, one after the other."""
    for i in range(n):
        yield op(f"op{i % 50}", i, 0)


@shape
def same_moment(n):
    """Operators of no length at one moment."""
    for i in range(n):
        yield op(f"op{i % 50}", 1000, 0)


@shape
def same_span(n):
    """Operators that all begin and end together."""
    for i in range(n):
        yield op(f"op{i % 50}", 1000, 5000)


@shape
def zero_kernels(n):
    """Launches and kernels of no length, in a step."""
    yield step(1, 0, n * 10)
    for i in range(n // 2):
        yield call(i * 10, 0, i + 1)
        yield gpu(i * 10, 0, i + 1)


@shape
def backwards(n):
    """The last event comes first."""
    for i in range(n, 0, -1):
        yield op(f"op{i % 50}", i * 10, 5)


# ------------------------------------------------------------------ joins


@shape
def one_launch(n):
    """One launch, the kernels of which are all of the rest."""
    yield step(1, 0, n * 10)
    yield op("aten::graph", 1, 100, '"External id":5')
    yield call(5, 20, 1, "cudaGraphLaunch", 5)
    for i in range(n):
        yield gpu(100 + i * 10, 5, 1, ext=5)


@shape
def one_correlation(n):
    """Launches and kernels that all have the same correlation."""
    yield step(1, 0, n * 10)
    for i in range(n // 2):
        yield call(i * 10, 5, 1)
        yield gpu(i * 10 + 3, 5, 1)


@shape
def one_external_id(n):
    """Operators, launches and kernels that all have the same External id."""
    for i in range(n // 3):
        yield op("aten::mm", i * 20, 15, '"External id":5')
        yield call(i * 20 + 1, 5, i + 1, ext=5)
        yield gpu(i * 20 + 4, 5, i + 1, ext=5)


@shape
def one_flow(n):
    """Arrows of one number."""
    for i in range(n // 2):
        yield op("aten::mm", i * 20, 15)
        ph = "sf"[i % 2]
        yield f'{{"ph":"{ph}","id":1,"cat":"fwdbwd","name":"fwdbwd",{HOST},"ts":{us(i * 20)}}}'


@shape
def one_sequence(n):
    """Forward and backward operators of one sequence number, with frames."""
    for i in range(n // 3):
        yield frame("train.py(10): step", i * 30, 28)
        yield op("aten::mm", i * 30 + 1, 5, '"Sequence number":7')
        args = '"Sequence number":7,"Fwd thread id":1'
        name = "autograd::engine::evaluate_function: MmBackward0"
        yield op(name, i * 30 + 10, 5, args, '"pid":1,"tid":2')


@shape
def engine_calls(n):
    """Calls of the autograd engine, and on a thread without frames nodes that no forward made."""
    run = "<built-in method run_backward of torch._C._EngineBase object at 0x1>"
    for i in range(n // 3):
        yield frame("train.py(10): step", i * 30, 28)
        yield frame(run, i * 30 + 2, 20)
        name = "autograd::engine::evaluate_function: MmBackward0"
        yield op(name, i * 30 + 5, 5, '"Sequence number":-1', '"pid":1,"tid":2')


@shape
def copies_at_once(n):
    """Copies in both directions whose calls all begin at one moment."""
    yield step(1, 0, n * 40)
    for i in range(n // 2):
        back = i % 2
        name = "Memcpy DtoH (Device -> Pageable)" if back else "Memcpy HtoD (Pageable -> Device)"
        yield call(1000, 2, i + 1, "cudaMemcpyAsync")
        yield gpu(2000 + i * 10, 5, i + 1, cat="gpu_memcpy", name=name)


@shape
def late_kernels(n):
    """All launches first; the kernels of each step come after all of them."""
    for i in range(n // 4):
        yield step(i, i * 100, 90)
        yield op("aten::mm", i * 100 + 1, 50, f'"External id":{i + 1}')
        yield call(i * 100 + 5, 5, i + 1, ext=i + 1)
        yield gpu(n * 100 + i * 50, 40, i + 1, ext=i + 1)


# ------------------------------------------------------------------ many of one kind


@shape
def tracks(n):
    """Each event on a thread of its own."""
    for i in range(n):
        yield op("aten::mm", i * 10, 5, "", f'"pid":1,"tid":{i}')


@shape
def processes(n):
    """Each event in a process of its own."""
    for i in range(n):
        yield op("aten::mm", i * 10, 5, "", f'"pid":{i},"tid":{i}')


@shape
def named_tracks(n):
    """Threads that have a name, and events of one thread."""
    for i in range(n // 2):
        yield op("aten::mm", i * 10, 5)
        yield (
            f'{{"ph":"M","name":"thread_name","pid":1,"tid":{i},"ts":0,'
            f'"args":{{"name":"thread {i}"}}}}'
        )


@shape
def loader_threads(n):
    """Each thread waits for data and computes."""
    wait = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    for i in range(n // 3):
        where = f'"pid":1,"tid":{i}'
        yield x("user_annotation", f"ProfilerStep#{i}", i * 100, 95, "", where)
        yield x("user_annotation", wait, i * 100 + 1, 40, "", where)
        yield op("aten::mm", i * 100 + 50, 30, "", where)


@shape
def streams(n):
    """Each kernel on a stream of its own, all of them at once."""
    yield step(1, 0, n * 20)
    for i in range(n // 2):
        yield call(i * 10, 5, i + 1)
        yield gpu(i * 10 + 8, n * 10, i + 1, stream=i)


@shape
def launching_threads(n):
    """Each kernel launched by a thread of its own."""
    yield step(1, 0, n * 20)
    for i in range(n // 2):
        yield call(i * 10, 5, i + 1, where=f'"pid":1,"tid":{i + 1}')
        yield gpu(i * 10 + 8, 5, i + 1)


@shape
def loader_spans(n):
    """Threads that wait for data, one of them often, and no steps."""
    wait = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    for i in range(n // 2):
        yield x("user_annotation", wait, i * 100, 90)
        yield x("user_annotation", wait, i * 100, 1, "", f'"pid":1,"tid":{i + 2}')


@shape
def devices(n):
    """Each kernel on a device of its own."""
    yield step(1, 0, n * 20)
    for i in range(n // 2):
        yield call(i * 10, 5, i + 1)
        yield gpu(i * 10 + 8, 5, i + 1, device=i % 60000)


@shape
def steps(n):
    """Steps of one operator, one launch and one kernel."""
    for i in range(n // 4):
        yield step(i, i * 100, 95)
        yield op("aten::mm", i * 100 + 5, 40, f'"External id":{i + 1}')
        yield call(i * 100 + 10, 10, i + 1, ext=i + 1)
        yield gpu(i * 100 + 30, 50, i + 1, ext=i + 1)


@shape
def updates(n):
    """One step with many updates, a backward at its end, and an operator between any two."""
    yield step(1, 0, n * 20)
    for i in range(n // 2):
        yield op(f"op{i % 50}", i * 20 + 1, 5)
        yield x("user_annotation", "Optimizer.step#Adam.step", i * 20 + 8, 5)
    yield op("autograd::engine::evaluate_function: MmBackward0", n * 19, 5)


@shape
def waits_in_steps(n):
    """Steps, in each a wait of another operator, and many devices."""
    for i in range(n // 4):
        yield step(i, i * 100, 95)
        yield op(f"op{i}", i * 100 + 5, 40)
        yield call(i * 100 + 10, 10, i + 1, "cudaStreamSynchronize")
        yield gpu(i * 100 + 30, 50, n + i, device=i)


@shape
def round_trips(n):
    """Tensors that go to the host and back, no two of one shape or from one place."""
    names = ("Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)")
    for i in range(n // 10):
        at = i * 1000
        dims = f'"Input Dims":[[{i + 1},{i + 2}]]'
        yield step(i, at, 990)
        yield frame(f"train_{i}.py(1): f", at, 980)
        yield call(at + 1, 1, 4 * i)
        yield gpu(at + 2, 1, 4 * i)
        for k in range(2):
            yield op("aten::to", at + 100 + 400 * k, 90, dims)
            yield call(at + 110 + 400 * k, 70, 4 * i + 1 + k, "cudaMemcpyAsync")
            yield gpu(at + 120 + 400 * k, 20, 4 * i + 1 + k, cat="gpu_memcpy", name=names[k])
        yield op("aten::sort", at + 200, 200, dims)


@shape
def numbered_alike(n):
    """Steps that all have the same number, on two threads."""
    for i in range(n // 2):
        yield step(1, i * 100, 95)
        yield x("user_annotation", "ProfilerStep#1", i * 100 + 3, 95, "", '"pid":1,"tid":2')


@shape
def names(n):
    """No two events have the same name."""
    for i in range(n):
        yield op(f"op{i}", i * 10, 5)


@shape
def kernel_names(n):
    """No two kernels have the same name."""
    yield step(1, 0, n * 20)
    for i in range(n // 2):
        yield call(i * 20, 5, i + 1)
        yield gpu(i * 20 + 4, 10, i + 1, name=f"kernel<{i}>")


@shape
def input_shapes(n):
    """No two operators have the same input."""
    for i in range(n):
        args = f'"Input Dims":[[{i},64],[64,64]],"Input type":["float","float"]'
        yield op("aten::mm", i * 10, 5, args)


@shape
def places(n):
    """Each wait at a place of its own."""
    for i in range(n // 3):
        yield frame(f"train_{i}.py({i % 1000}): f{i}", i * 30, 28)
        yield op("aten::item", i * 30 + 1, 25)
        yield call(i * 30 + 2, 20, i + 1, "cudaStreamSynchronize")


@shape
def phases(n):
    """Annotations, each with its own name, on two threads."""
    yield step(1, 0, n * 20)
    for i in range(n):
        where = f'"pid":1,"tid":{1 + i % 2}'
        yield x("user_annotation", f"phase {i}", i * 20 + 1, 15, "", where)


@shape
def gaps(n):
    """The device is idle after every kernel, each time for another reason."""
    yield step(1, 0, n * 40)
    for i in range(n // 4):
        yield op(f"op{i % 50}", i * 100, 60)
        yield call(i * 100 + 2, 5, i + 1)
        yield call(i * 100 + 30, 25, n + i, "cudaStreamSynchronize")
        yield gpu(i * 100 + 10, 20, i + 1)


@shape
def copies(n):
    """To the device and back again, each with a wait."""
    yield step(1, 0, n * 40)
    for i in range(n // 4):
        back = i % 2
        name = "Memcpy DtoH (Device -> Pageable)" if back else "Memcpy HtoD (Pageable -> Device)"
        yield op("aten::copy_", i * 100, 60, f'"External id":{i + 1}')
        yield call(i * 100 + 2, 40, i + 1, "cudaMemcpyAsync", i + 1)
        yield call(i * 100 + 45, 10, n + i, "cudaStreamSynchronize")
        yield gpu(i * 100 + 10, 20, i + 1, cat="gpu_memcpy", name=name, ext=i + 1)


@shape
def copies_waiting(n):
    """Many copies of which only the last has come back."""
    yield step(1, 0, n * 40)
    for i in range(n // 3):
        name = "Memcpy DtoH (Device -> Pinned)"
        yield op("aten::to", i * 10, 9, f'"External id":{i + 1}')
        yield call(i * 10 + 2, 2, i + 1, "cudaMemcpyAsync", i + 1)
        yield gpu(n * 10 + i * 10, 5, i + 1, cat="gpu_memcpy", name=name, ext=i + 1)
    yield call(n * 30, 100, n, "cudaDeviceSynchronize")


@shape
def allocations(n):
    """Changes of memory, all of them in one deep call."""
    for i in range(n // 2):
        yield op(f"op{i % 50}", i * 10, (n - i) * 20)
        args = f'"Bytes":{64 if i % 2 else -64},"Device Type":1,"Device Id":0,"Total Allocated":{i}'
        yield (
            f'{{"ph":"i","cat":"cpu_instant_event","name":"[memory]",{HOST},'
            f'"ts":{us(i * 10 + 5)},"args":{{{args},"Addr":{i},"Total Reserved":{i}}}}}'
        )


@shape
def counters(n):
    """Each counter has its own name."""
    for i in range(n):
        yield f'{{"ph":"C","name":"c{i}",{HOST},"ts":{us(i * 10)},"args":{{"v":{i}}}}}'


# ------------------------------------------------------------------ damage


@shape
def damaged(n):
    """Every second event has a fault."""
    for i in range(n):
        text = op(f"op{i % 50}", i * 10, 5)
        yield text.replace('"dur":', '"dur" ') if i % 2 else text


@shape
def quotes(n):
    """Names with a quotation mark that nothing escapes."""
    for i in range(n):
        yield op(f'op"{i % 50}', i * 10, 5)


@shape
def open_braces(n):
    """Events that are never closed."""
    for i in range(n):
        yield op(f"op{i % 50}", i * 10, 5)[:-1]


@shape
def no_times(n):
    """Events without a time, and some of none of the known kinds."""
    for i in range(n):
        yield f'{{"ph":"{"XiQ"[i % 3]}","cat":"cpu_op","name":"op{i % 50}",{HOST}}}'


# ------------------------------------------------------------------ several files


def many_windows(n, folder):
    """Traces of `kscope run`: a window of few events for each of two ranks, and again."""
    for i in range(n):
        name = f"rank{i % 2}.pid{7 + i % 2}.window{i // 2 + 1}.pt.trace.json.gz"
        head = f'{{"baseTimeNanoseconds":{17 * 10**17 + i * 10**6},"traceEvents":[\n'
        text = head + ",\n".join(SHAPES["steps"](8)) + "\n]}\n"
        (folder / name).write_bytes(gzip.compress(text.encode(), 1, mtime=0))


def with_stacks(n, folder):
    """A trace with waits of as many operators, and beside it one that knows their places."""
    for name, has_frames in (("a.pt.trace.json", False), ("a.stacks.pt.trace.json", True)):
        with open(folder / name, "w", encoding="utf-8") as f:
            f.write(HEAD + step(1, 0, n * 40) + "\n")
            for i in range(n // 3):
                events = [op(f"op{i}", i * 30 + 1, 25)]
                events.append(call(i * 30 + 2, 20, i + 1, "cudaStreamSynchronize"))
                if has_frames:
                    events.insert(0, frame(f"train_{i % 99}.py({i}): f", i * 30, 28))
                f.write("".join(",\n" + event for event in events))
            f.write("\n]}\n")


FOLDERS = {"many_windows": many_windows, "with_stacks": with_stacks}


# ------------------------------------------------------------------


def write(name, events, path):
    """`path`: a file, or for shapes of several files the folder, which is made."""
    if name in FOLDERS:
        os.makedirs(path)
        FOLDERS[name](events, pathlib.Path(path))
        return
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD)
        separator = ""
        for text in SHAPES[name](events):
            f.write(separator + text)
            separator = ",\n"
        f.write("\n]}\n")


def main(arguments):
    if arguments == ["--list"]:
        for name, function in (SHAPES | FOLDERS).items():
            print(f"{name:17} {function.__doc__}")
        return 0
    if len(arguments) != 3 or arguments[0] not in SHAPES | FOLDERS or not arguments[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    write(arguments[0], int(arguments[1]), arguments[2])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
