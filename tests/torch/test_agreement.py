"""Goal: what the package measures is what torch and the test's own clocks say of the same steps,
and measuring changes none of them. Method: on the GPU where there is one, else on the CPU. Clocks
of the test stand in the model itself: events of the GPU, or the time of the host. Medians over
steps, since a machine that others use stretches single ones."""

import contextlib
import os
import statistics
import time

import pytest

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA begins
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

IS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if IS_GPU else "cpu"
needs_gpu = pytest.mark.skipif(not IS_GPU, reason="no GPU")
STEPS = 12
MIB = 1 << 20


def is_near(a, b):
    """Within 5 % or 50 us; seconds."""
    return abs(a - b) <= max(0.05 * max(a, b), 50e-6)


def settle():
    if IS_GPU:
        torch.cuda.synchronize()


# ------------------------------------------------------------ times


class Marks:
    """Moments, in the order of what the device does."""

    def __init__(self):
        self._marks = {}

    def set(self, name):
        mark = time.perf_counter_ns()
        if IS_GPU:
            mark = torch.cuda.Event(enable_timing=True)
            mark.record()
        self._marks.setdefault(name, []).append(mark)

    def seconds_between(self, first, last):
        settle()
        pairs = zip(self._marks[first], self._marks[last], strict=True)
        if IS_GPU:
            return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]
        return [(end - begin) / 1e9 for begin, end in pairs]


class Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, marks, name):
        ctx.rest = marks, name
        marks.set(f"{name} forward")
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        marks, name = ctx.rest
        marks.set(f"{name} backward")
        return grad, None, None


class Clocked(torch.nn.Module):
    """Marks the moments at which its layers begin and end."""

    def __init__(self, width, layers):
        super().__init__()
        self.marks = Marks()
        pairs = [(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(layers)]
        self.layers = torch.nn.Sequential(*(layer for pair in pairs for layer in pair))

    def forward(self, x):
        x = Mark.apply(x, self.marks, "first")
        return Mark.apply(self.layers(x), self.marks, "last")


class Rows(torch.utils.data.Dataset):
    def __init__(self, width):
        self.width = width

    def __len__(self):
        return 16 * STEPS

    def __getitem__(self, index):
        time.sleep(0.0005)
        return torch.full((self.width,), index / len(self))


def recorded_steps(ks, folder, model, loader):
    """Trains under torch.profiler, with hooks and regions. The hooks."""
    head = torch.nn.Linear(model.layers[0].in_features, 1).to(DEVICE)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3, foreach=False)
    hooks = ks.TorchProfilingHooks()
    hooks.register_forward_hook(model, "model")
    hooks.register_backward_hook(model, "model")
    with ks.profile(folder) as profile, hooks:
        for rows in loader:
            x = rows.to(DEVICE).requires_grad_()
            settle()
            with ks.profile_operation("region_forward"), torch.profiler.record_function("a"):
                y = model(x)
                settle()
            loss = head(y).square().mean()
            settle()
            with ks.profile_operation("region_backward"), torch.profiler.record_function("b"):
                loss.backward()
                settle()
            with ks.profile_operation("region_optimizer"), torch.profiler.record_function("c"):
                optimizer.step()
            optimizer.zero_grad()
            profile.step()
    return hooks


@pytest.fixture(scope="module")
def steps(ks, tmp_path_factory):
    """{what: {source: median seconds}} of the same steps."""
    from kinetoscope.torch.data_loading_profiler import LoaderTimes

    folder = tmp_path_factory.mktemp("steps")
    torch.manual_seed(0)
    width, rows = (4096, 8192) if IS_GPU else (768, 128)
    model = Clocked(width, 8).to(DEVICE)
    data = torch.utils.data.DataLoader(Rows(width), batch_size=16)
    times, iterator = LoaderTimes(), iter(ks.DataLoadingProfiler().measured(data))
    batches = (times.take(iterator).repeat(rows // 16, 1) for _ in range(STEPS))
    hooks = recorded_steps(ks, folder, model, batches).get_times()["model"]
    report = ks.open(folder)

    def of_trace(pattern):
        is_host = "category <> 'gpu_user_annotation'"
        sql = f"select dur_ns / 1e9 from slice where name glob '{pattern}' and {is_host}"
        found = [seconds for (seconds,) in report.query(sql)]
        assert len(found) == STEPS, (pattern, len(found))
        return statistics.median(found)

    marks = model.marks
    return {
        "forward": {
            "marks": statistics.median(marks.seconds_between("first forward", "last forward")),
            "hooks": hooks["forward"]["p50"],
            "region": of_trace("region_forward"),
            "profiler": of_trace("a"),
        },
        "backward": {
            "marks": statistics.median(marks.seconds_between("last backward", "first backward")),
            "hooks": hooks["backward"]["p50"],
        },
        "whole backward": {"region": of_trace("region_backward"), "profiler": of_trace("b")},
        "optimizer": {
            "region": of_trace("region_optimizer"),
            "profiler": of_trace("c"),
        },
        "data": {
            "loader": times.stats()["parts"]["wait"]["p50"],
            "profiler": of_trace("enumerate(DataLoader)*"),
        },
    }


@pytest.mark.parametrize("what", ["forward", "backward", "whole backward", "optimizer", "data"])
def test_all_that_time_a_phase_agree(steps, what):
    sources = steps[what]
    first, *others = sources
    for other in others:
        assert is_near(sources[first], sources[other]), sources


@needs_gpu
def test_hooks_hold_what_the_gpu_does_and_no_more(ks):
    """Work of a known length on the GPU, behind which the host does not wait."""

    class Busy(torch.nn.Module):
        def forward(self, x):
            torch.cuda._sleep(20_000_000)
            return x * 1

    module, marks = Busy(), Marks()
    with ks.TorchProfilingHooks() as hooks:
        hooks.register_forward_hook(module, "busy")
        for _ in range(5):
            x = torch.ones(4, device=DEVICE)
            marks.set("begin")
            module(x)
            marks.set("end")
    asked = marks.seconds_between("begin", "end")
    got = hooks.get_times()["busy"]["forward"]
    assert min(asked) > 0.005 and is_near(got["total"] / 5, sum(asked) / 5)


# ------------------------------------------------------------ memory and copies


@needs_gpu
def test_memory_figures_are_the_allocators(ks):
    profiler = ks.TorchMemoryProfiler()
    torch.cuda.empty_cache()
    profiler.reset_peak_stats()
    before = profiler.snapshot_memory("before")
    kept = [torch.empty(64 * MIB, dtype=torch.uint8, device=DEVICE)]
    torch.empty(32 * MIB, dtype=torch.uint8, device=DEVICE)  # gone at once
    after = profiler.snapshot_memory("after")
    assert after["allocated"] - before["allocated"] == 64 * MIB
    assert after["max_allocated"] - before["allocated"] == 96 * MIB
    stats = torch.cuda.memory_stats()
    assert after["allocated"] == stats["allocated_bytes.all.current"]
    assert after["reserved"] == stats["reserved_bytes.all.current"]
    assert after["max_reserved"] == stats["reserved_bytes.all.peak"]
    assert profiler.analyze_growth()["bytes_total"] == 64 * MIB
    metrics = profiler.current_metrics()
    assert metrics["gpu_memory_allocated"] == torch.cuda.memory_allocated() and len(kept) == 1


@needs_gpu
@pytest.mark.parametrize("is_pinned", [False, True])
def test_copies_to_and_from_the_gpu(ks, is_pinned):
    there = torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=is_pinned)
    marks = Marks()
    there.to(DEVICE)
    settle()
    with ks.profile_device_placement("up") as up:
        marks.set("begin")
        copy = there.to(DEVICE, non_blocking=True)
        marks.set("end")
    (on_gpu,) = marks.seconds_between("begin", "end")
    result = up.result
    assert (result["device_transfers"], result["bytes"]) == (1, 256 * MIB)
    assert result["direction"] == "cpu_to_cuda" and result["duration"] >= 0.95 * on_gpu
    with ks.profile_device_placement("down") as down:
        copy.cpu()
    assert down.result["directions"] == {"cuda_to_cpu": [1, 256 * MIB]}


@needs_gpu
def test_a_loaders_transfer_is_the_copy(ks):
    batches = [torch.ones(128 * MIB, dtype=torch.uint8) for _ in range(4)]
    batches[0].to(DEVICE)
    stats = ks.DataLoadingProfiler().profile_dataloader(batches, num_batches=4, device=DEVICE)
    begin = time.perf_counter()
    for batch in batches:
        batch.to(DEVICE)
    settle()
    alone = (time.perf_counter() - begin) / 4
    transfer = stats["parts"]["transfer"]["mean"]
    assert 0.5 * alone <= transfer <= 2 * alone, (transfer, alone)


# ------------------------------------------------------------ nothing changes


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(97, 32)
        self.body = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.2, batch_first=True)
        self.head = torch.nn.Linear(32, 97)

    def forward(self, tokens):
        return self.head(self.body(self.words(tokens)))


def losses_of(watch):
    torch.manual_seed(11)
    model = Small().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = torch.randint(97, (96, 17))
    loader = torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True)
    losses = []
    with watch(model, optimizer, loader) as (batches, end_step):
        for batch in batches:
            batch = batch.to(DEVICE, non_blocking=True)
            scores = model(batch[:, :-1])
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            end_step()
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@contextlib.contextmanager
def nothing(model, optimizer, loader):
    yield loader, lambda: None


def everything(ks, folder):
    """Hooks of all modules, regions, a recording with stacks, shapes, memory and FLOPs, snapshots,
    the monitor, counted copies and the measured loader."""
    from kinetoscope.torch.data_loading_profiler import LoaderTimes

    @contextlib.contextmanager
    def watch(model, optimizer, loader):
        memory, times = ks.TorchMemoryProfiler(), LoaderTimes()
        iterator = iter(ks.DataLoadingProfiler().measured(loader))
        switches = dict.fromkeys(("with_stack", "record_shapes", "profile_memory", "with_flops"), 1)
        monitor = ks.PerformanceMonitor()
        monitor.start_monitoring()

        def end_step():
            memory.snapshot_memory("step")
            profile.step()

        with (
            ks.TorchProfilingHooks().register_model_hooks(model),
            ks.profile_device_placement("training"),
            ks.profile(folder, **switches) as profile,
            ks.profile_operation("training"),
        ):
            yield (times.take(iterator) for _ in range(len(loader))), end_step
        monitor.stop_monitoring()
        assert len(ks.open(folder).steps) == len(loader) == times.stats()["total_batches"]

    return watch


def a_pipeline_between(ks, make):
    """The pipeline of the model that trains is profiled in the middle of its training."""

    @contextlib.contextmanager
    def watch(model, optimizer, loader):
        profiler, done = make(with_flops=True), []
        rows = [torch.arange(128).reshape(8, 16) % (90 + i) for i in range(3)]

        def loss_of(scores, rows):
            return torch.nn.functional.cross_entropy(scores.flatten(0, 1), rows.flatten())

        def end_step():
            done.append(1)
            if len(done) == 5:
                pairs = [(row, row) for row in rows]
                profiler.profile_training_pipeline(model, pairs, 3, loss_of, optimizer)

        yield loader, end_step

    return watch


@pytest.mark.parametrize("kind", ["everything", "a pipeline between"])
def test_measuring_changes_no_bit(ks, make, tmp_path, kind):
    is_all = kind == "everything"
    watch = everything(ks, tmp_path / "all") if is_all else a_pipeline_between(ks, make)
    torch.use_deterministic_algorithms(True)
    try:
        losses, weights = losses_of(nothing)
        again, _ = losses_of(nothing)
        assert again == losses  # else nothing could be said
        watched, their_weights = losses_of(watch)
    finally:
        torch.use_deterministic_algorithms(False)
    assert watched == losses
    assert all(torch.equal(a, b) for a, b in zip(weights, their_weights, strict=True))
