"""Draws small traces of a training loop, as torch.profiler writes them; all times are us.

Rows of a thread lie next to each other without room between, and `aten::t` takes as long as the row
inside of it, so that recording them cost nothing: what a replay saves is what the trace shows. Work
starts 8 us behind its launch, or at the end of the work before it on its stream; who waits for the
GPU notices 2 us after it is done. A step ends when the host has waited for all its work.
"""

import contextlib
import json

GPU = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 80 << 30, "computeMajor": 9}
GPU |= {"computeMinor": 0, "numSms": 132}
LAUNCH_US, WAKE_US = 8, 2
MAIN, ENGINE = 1, 2
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor>"
PRODUCT = "nvjet_tst_128x256_64x4_2x1_v_bz_TNT"
HALF = ["c10::BFloat16", "c10::BFloat16"]


class Recording:
    """The trace of a process: its threads, and a GPU whose streams take work in order."""

    def __init__(self, rank=None, ranks=1, has_gpu=True, **run):
        self.events = []
        self.now = 0
        self.begin = 0
        self.free = {}
        self.calls = 0
        self.rank = rank
        self.top = {"schemaVersion": 1, "record_shapes": 1, "profile_memory": 1}
        self.top["deviceProperties"] = [GPU] if has_gpu else []
        if rank is not None:
            self.top["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
        if run:
            self.top["kinetoscope"] = run

    # ------------------------------------------------------------ rows

    def row(self, cat, name, begin, dur, thread=MAIN, **args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread}
        self.events.append(event | {"ts": begin, "dur": dur} | ({"args": args} if args else {}))

    def note(self, name, begin, dur, thread=MAIN):
        self.row("user_annotation", name, begin, dur, thread)

    def frame(self, name, begin, dur, id, parent=None):
        ids = {"Python id": id, "Python parent id": parent, "Python module id": None}
        self.row("python_function", name, begin, dur, **ids)

    def call(self, name, begin, dur, thread=MAIN):
        """A call into the driver; gives its number."""
        self.calls += 1
        self.row("cuda_runtime", name, begin, dur, thread, correlation=self.calls)
        return self.calls

    def work(self, name, dur, call_begin, corr, stream=7, cat="kernel", **args):
        """Work that a call launched. Gives its end."""
        begin = max(call_begin + LAUNCH_US, self.free.get(stream, 0))
        self.free[stream] = begin + dur
        where = {"device": 0, "stream": stream, "correlation": corr}
        event = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream}
        self.events.append(event | {"ts": begin, "dur": dur, "args": where | args})
        return begin + dur

    # ------------------------------------------------------------ operators

    def op(
        self, name, dur, kernel=None, us=0, thread=MAIN, dims=None, types=None, seq=None, **work
    ):
        """An operator at the present moment, which may launch a kernel 2 us after it began."""
        given = {"Input Dims": dims, "Input type": types, "Sequence number": seq}
        args = {key: value for key, value in given.items() if value is not None}
        if seq is not None:
            args["Fwd thread id"] = 0 if thread == MAIN else 1
        self.row("cpu_op", name, self.now, dur, thread, **args)
        if kernel:
            corr = self.call("cudaLaunchKernel", self.now + 2, 2, thread)
            self.work(kernel, us, self.now + 2, corr, **work)
        self.now += dur

    @contextlib.contextmanager
    def within(self, name, cat="cpu_op", thread=MAIN, dims=None, types=None, seq=None):
        """A row around what is drawn meanwhile."""
        given = {"Input Dims": dims, "Input type": types, "Sequence number": seq}
        begin, at = self.now, len(self.events)
        yield
        args = {key: value for key, value in given.items() if value is not None}
        self.row(cat, name, begin, self.now - begin, thread, **args)
        self.events.insert(at, self.events.pop())  # what holds a row comes before it

    def view(self):
        """A view, which takes as long as the row inside of it."""
        self.row("cpu_op", "aten::t", self.now, 2)
        self.row("cpu_op", "aten::transpose", self.now, 2)
        self.now += 2

    def copy(self, name, dur, kind, bytes_copied, us, dims=None, waits=True, inside=None):
        """An operator that copies, and waits until its end less 2 us."""
        args = {"Input Dims": dims} if dims else {}
        self.row("cpu_op", name, self.now, dur, **args)
        if inside:
            self.row("cpu_op", inside, self.now, dur)
        corr = self.call("cudaMemcpyAsync", self.now + 2, 2)
        end = self.work(
            f"Memcpy {kind}", us, self.now + 2, corr, cat="gpu_memcpy", bytes=bytes_copied
        )
        if waits:
            assert end + WAKE_US <= self.now + dur, "the copy ends before the operator does"
            self.call("cudaStreamSynchronize", self.now + 4, dur - 4)
        self.now += dur

    def sync(self):
        """Waits for all work."""
        end = max([self.now + WAKE_US, *(free + WAKE_US for free in self.free.values())])
        self.call("cudaStreamSynchronize", self.now, end - self.now)
        self.now = end

    def pause(self, us):
        """Nothing that is recorded."""
        self.now += us

    def memory(self, size, address, device=True):
        args = {"Bytes": size, "Addr": address, "Device Type": 1 if device else 0}
        args["Device Id"] = 0 if device else -1
        event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": MAIN}
        self.events.append(event | {"ts": self.now, "s": "t", "args": args})

    # ------------------------------------------------------------ steps

    def start(self):
        self.begin = self.now
        self.view()
        self.view()

    def product(self, us, **work):
        """A matrix product on tensor cores, which takes `us` of the GPU."""
        self.op("aten::mm", 10, PRODUCT, us, **work)

    def product_until(self, end, **work):
        """A product that lasts so long that a wait for it ends `end` us into the step."""
        queued = max([0, *self.free.values()])
        self.product(self.begin + end - WAKE_US - max(self.now + 2 + LAUNCH_US, queued), **work)

    def finish(self, number, dur, **work):
        """The rest of a step of `dur` us on the GPU: a product, and the wait for it."""
        self.product_until(dur, **work)
        self.sync()
        self.end(number)

    def end(self, number):
        self.note(f"ProfilerStep#{number}", self.begin, self.now - self.begin)

    def text(self):
        """The file."""
        head = self.top | {"baseTimeNanoseconds": 1764000000000000000}
        lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in self.events)
        return "{\n" + "\n".join(lines) + f'\n "traceEvents": [\n{events}\n ]\n}}\n'


def lead(r):
    """A short kernel, so that what follows is behind an operator that launches."""
    r.op("aten::relu", 10, ELEMENTWISE, 2)


def steps(body, dur, count=4, **options):
    """Steps of `dur` us: `body(recording, number)`, then a product until their end."""
    recording = Recording(**options)
    for number in range(1, count + 1):
        recording.start()
        body(recording, number)
        recording.finish(number, dur)
    return recording
