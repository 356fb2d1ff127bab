"""Goal: profile_training_pipeline reports what the steps did, leaves everything as it was, after
failures too, and saves what it says. Method: models and loaders with known sleeps; the whole state
before and after; losses of a training with and without profiling between its steps."""

import copy
import json
import logging
import mmap
import os
import random
import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
nn, data = torch.nn, torch.utils.data


def small_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 3))


def small_loader(batches=8, **more):
    x = torch.randn(batches * 4, 6, generator=torch.Generator().manual_seed(2))
    return data.DataLoader(data.TensorDataset(x, torch.arange(len(x)) % 3), 4, **more)


def state_of(model, optimizer=None):
    """All that must come back, as plain values."""
    state = {name: value.tolist() for name, value in model.state_dict().items()}
    state["gradients"] = [None if p.grad is None else p.grad.tolist() for p in model.parameters()]
    state["modes"] = [module.training for module in model.modules()]
    state["hooks"] = [len(t) for m in model.modules() for k, t in vars(m).items() if "_hooks" in k]
    state["random"] = (torch.get_rng_state().tolist(), random.getstate())
    if optimizer is not None:
        state["optimizer"] = repr(optimizer.state_dict())
    return state


class Stage(nn.Module):
    """Rests in its forward, and in its backward."""

    class Rest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, naps):
            ctx.naps = naps
            naps.take("forward", 0.03)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            ctx.naps.take("backward", 0.04)
            return grad.clone(), None

    def __init__(self, naps):
        super().__init__()
        self.inner, self.naps = nn.Linear(6, 3), naps

    def forward(self, x):
        return self.Rest.apply(self.inner(x), self.naps)


class SlowSamples(data.Dataset):
    def __init__(self, naps):
        self.naps = naps

    def __len__(self):
        return 40

    def __getitem__(self, index):
        self.naps.take("read", 0.005)
        return torch.ones(6), index % 3


class Lazy(torch.optim.SGD):
    naps = None

    def step(self, closure=None):
        self.naps.take("optimizer", 0.025)
        return super().step(closure)


@pytest.fixture
def slow(naps):
    """(model, loader, loss_fn, optimizer) whose parts rest for PARTS."""

    def loss_fn(output, target):
        naps.take("loss", 0.02)
        return nn.functional.cross_entropy(output, target)

    model = Stage(naps)
    optimizer = Lazy(model.parameters(), lr=0.1)
    optimizer.naps = naps
    return model, data.DataLoader(SlowSamples(naps), batch_size=4), loss_fn, optimizer


PARTS = {"data": 0.02, "forward": 0.03, "loss": 0.02, "backward": 0.04, "optimizer": 0.025}
REGIONS = {
    "forward": "forward_pass",
    "loss": "loss_computation",
    "backward": "backward_pass",
    "optimizer": "optimizer_step",
}


def rests_of(naps, part, index, count):
    """Seconds that step `index` of the last `count` ones rested in that part."""
    if part == "data":
        return sum(naps["read"][-4 * count :][4 * index : 4 * index + 4])
    return naps[part][-count:][index]


def test_phases_hold_their_rests(make, slow, naps):
    """Each phase of each step holds what was rested in it, and together they are the step, so that
    none holds a rest of another. True however busy the machine is."""
    profiler = make(with_stack=False)
    model, loader, loss_fn, optimizer = slow
    began = time.perf_counter()
    report = profiler.profile_training_pipeline(model, loader, 5, loss_fn, optimizer)
    took = time.perf_counter() - began
    assert report["steps"] == 5 and report["loss"] == "given"
    steps = profiler.pytorch_profiler.report.steps
    assert [step["number"] for step in steps] == list(range(5))
    for index, step in enumerate(steps):
        phases = {part: step["phases_ns"][part] / 1e9 for part in step["phases_ns"]}
        assert sum(step["phases_ns"].values()) == step["dur_ns"]
        for part in PARTS:
            # The loader is asked for the first batch before the first step begins.
            if (part, index) != ("data", 0):
                assert phases[part] >= rests_of(naps, part, index, 5) - 1e-4, (part, index)
    times, whole = report["step_times"], sum(PARTS.values())
    assert times["count"] >= 5 and times["min"] >= whole and times["total"] <= took
    assert report["model_profiling"]["total_time"] * 1e9 == sum(s["dur_ns"] for s in steps)
    assert report["model_profiling"]["total_time"] + times["total"] <= took
    found = [finding["id"] for finding in report["findings"]]
    assert [each["id"] for each in report["model_optimizations"]["suggested"]] == found
    assert report["data_optimizations"]["num_workers"] >= 1
    assert any("num_workers" in sentence for sentence in report["recommendations"])


def test_hooks_regions_and_trace_agree(make, ks, slow, naps):
    """On the same steps: what rests is in what the hooks time, that is in the region around it,
    and that in its step."""
    from kinetoscope.torch.training_pipeline import Pipeline

    profiler = make(with_stack=False)
    model, loader, loss_fn, optimizer = slow
    hooks = ks.TorchProfilingHooks(profiler).register_model_hooks(model)
    with profiler.pytorch_profiler.record():
        Pipeline(model, loss_fn, optimizer).run(loader, 6, profiler.pytorch_profiler.step)
    hooks.cleanup()

    def lengths(pattern):
        sql = f"select dur_ns / 1e9 from slice where name glob '{pattern}' order by ts_ns"
        found = [seconds for (seconds,) in profiler.pytorch_profiler.report.query(sql)]
        assert len(found) == 6, pattern
        return found

    for part, region in REGIONS.items():
        pairs = zip(naps[part], lengths(region), strict=True)
        assert all(rest <= length for rest, length in pairs), part
    for way in ("forward", "backward"):
        of_hooks = hooks.get_times()["Stage"][way]
        assert of_hooks["count"] == 6
        assert naps.total(way) <= of_hooks["total"] <= sum(lengths(REGIONS[way]))
    for index, wait in enumerate(lengths("enumerate(DataLoader)*")):
        assert wait >= rests_of(naps, "data", index, 6)
    whole = sum(step["dur_ns"] for step in profiler.pytorch_profiler.report.steps) / 1e9
    assert sum(sum(lengths(region)) for region in REGIONS.values()) <= whole


def test_everything_is_put_back(make):
    model = small_model()
    model[2].eval()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    profiled = copy.deepcopy(optimizer.state_dict())
    loader = small_loader(shuffle=True)
    before = state_of(model, optimizer)
    report = make().profile_training_pipeline(model, loader, 6, optimizer=optimizer)
    assert state_of(model, optimizer) == before and profiled["state"] == {}
    assert report["loss"] == "cross_entropy" and json.dumps(report, allow_nan=False)


def test_losses_of_a_training_are_bit_identical(make, ks):
    """Profiled between, and inside of its steps, a training gives the same losses."""

    def losses(profiler=None):
        model = small_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loader, out = small_loader(shuffle=True), []
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.item())
            if profiler is not None and len(out) in (2, 5):
                profiler.profile_training_pipeline(model, small_loader(), 3, optimizer=optimizer)
        return out

    plain = losses()
    assert losses(make()) == plain
    profiler = make(with_flops=True)
    train = profiler.profile_training_loop(losses)
    with profiler.pytorch_profiler.record():
        assert train() == plain
    ((loop),) = profiler.training_loops
    assert loop["name"] == "losses" and loop["performance_monitoring"]["memory"]["mean"] > 0


def test_gradients_are_those_of_one_step(make):
    """With one batch again and again, and weights that stay, each step has the same gradient."""
    seen = []

    class Watching(torch.optim.SGD):
        def step(self, closure=None):
            seen.append([p.grad.clone() for g in self.param_groups for p in g["params"]])
            return super().step(closure)

    torch.manual_seed(1)
    model = nn.Linear(6, 3)
    model.weight.grad = torch.ones_like(model.weight)  # what the program had is no part of them
    batch = (torch.ones(4, 6), torch.tensor([0, 1, 2, 0]))
    optimizer = Watching(model.parameters(), lr=0.0)
    make().profile_training_pipeline(model, [batch] * 4, 4, optimizer=optimizer)
    wanted = torch.autograd.grad(
        nn.functional.cross_entropy(model(batch[0]), batch[1]), list(model.parameters())
    )
    assert len(seen) >= 8
    for grads in seen:
        assert all(map(torch.equal, grads, wanted))


def test_random_numbers_of_an_epoch_are_those_without_profiling(make):
    model, loader = small_model(), small_loader(shuffle=True)
    torch.manual_seed(9)
    plain = [y.tolist() for _, y in loader]
    torch.manual_seed(9)
    make().profile_training_pipeline(model, loader, 4)
    assert [y.tolist() for _, y in loader] == plain


@pytest.mark.parametrize("workers", [0, 1])
def test_failures_restore_and_pass(make, workers):
    class Breaks(data.Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            if index >= 8:
                raise LookupError("planted in the loader")
            return torch.ones(6), index % 3

    model, profiler = small_model(), make()
    before = state_of(model)
    loader = data.DataLoader(Breaks(), batch_size=4, num_workers=workers)
    with pytest.raises(LookupError, match="planted in the loader"):
        profiler.profile_training_pipeline(model, loader, 4)
    assert state_of(model) == before
    assert not torch.autograd._profiler_enabled()
    # It can be used again.
    assert profiler.profile_training_pipeline(model, small_loader(), 3)["steps"] == 3


def test_a_step_that_raises(make):
    calls = []

    def loss_fn(output, target):
        calls.append(1)
        if len(calls) == 3:
            raise ArithmeticError("planted in the step")
        return nn.functional.cross_entropy(output, target)

    model = small_model()
    optimizer = torch.optim.Adam(model.parameters())
    before = state_of(model, optimizer)
    profiler = make(enable_autograd_anomaly=True)
    with pytest.raises(ArithmeticError, match="planted"):
        profiler.profile_training_pipeline(model, small_loader(), 6, loss_fn, optimizer)
    assert state_of(model, optimizer) == before
    assert not torch.is_anomaly_enabled() and not torch.autograd._profiler_enabled()
    assert not profiler.performance_monitor._monitor.is_on


def test_arguments(make, tmp_path):
    model, profiler = small_model(), make()
    run = profiler.profile_training_pipeline
    with pytest.raises(TypeError, match=r"torch\.nn\.Module: str"):
        run("no module", small_loader())
    with pytest.raises(TypeError, match="int"):
        run(model, 5)
    with pytest.raises(TypeError, match="loss_fn"):
        run(model, small_loader(), loss_fn=5)
    with pytest.raises(ValueError, match="empty"):
        run(model, data.DataLoader([], batch_size=2))
    with pytest.raises(ValueError, match="empty"):
        make(profile_data_loading=False).profile_training_pipeline(model, iter([]))
    with pytest.raises(ValueError, match="num_steps"):
        run(model, small_loader(), 0)
    with torch.profiler.profile(), pytest.raises(RuntimeError, match="one for a process"):
        run(model, small_loader(), 2)
    (tmp_path / "file").write_text("")
    blocked = make(save_profiles=True, output_dir=str(tmp_path / "file"))
    before = state_of(model)
    with pytest.raises(OSError):
        blocked.profile_training_pipeline(model, small_loader())
    assert state_of(model) == before


def test_nested_use(make):
    profiler = make()

    def loss_fn(output, target):
        with pytest.raises(RuntimeError, match="already"):
            profiler.profile_training_pipeline(small_model(), small_loader())
        return output.sum()

    report = profiler.profile_training_pipeline(small_model(), small_loader(), 2, loss_fn)
    assert report["steps"] == 2


def test_losses_come_from_where_there_is_one(make):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(6, 3)

        def forward(self, x, labels):
            scores = self.inner(x)
            return type("Output", (), {"loss": scores.sum(), "logits": scores})

    profiler = make(with_stack=False)
    dicts = [{"x": torch.ones(4, 6), "labels": torch.zeros(4, dtype=torch.int64)}] * 3
    assert profiler.profile_training_pipeline(Own(), dicts, 3)["loss"] == "output.loss"
    alone = [torch.ones(4, 6)] * 3
    report = profiler.profile_training_pipeline(small_model(), alone, 3)
    assert report["loss"] == "none"
    names = {row["name"] for row in profiler.pytorch_profiler.report.operators}
    assert "forward_pass" in names and "backward_pass" not in names
    one_shot = iter([(torch.ones(4, 6), torch.zeros(4, dtype=torch.int64))] * 9)
    report = profiler.profile_training_pipeline(small_model(), one_shot, 4)
    assert report["steps"] == 4 and report["data_loading"] is None
    assert len(list(one_shot)) == 5  # what was not needed is still there


def test_files(make, tmp_path):
    folder = tmp_path / "kept"
    profiler = make(save_profiles=True, output_dir=str(folder))
    report = profiler.profile_training_pipeline(small_model(), small_loader(), 3)
    assert json.loads((folder / "report.json").read_text()) == report
    kept = json.loads((folder / "optimizations.json").read_text())
    assert kept == report["model_optimizations"]
    assert (folder / "performance.png").read_bytes()[:4] == b"\x89PNG"
    traces = os.listdir(folder / "traces")
    assert sorted(".stacks." in name for name in traces) == [False, True]
    text = (folder / "summary.txt").read_text()
    assert "steps           3, loss: cross_entropy" in text


def test_switches(make):
    """Each one takes its part out of the report, and nothing else."""
    sections = {
        "profile_data_loading": ("data_loading", None),
        "profile_dataloader_performance": ("data_loading", None),
        "use_torch_profiler": ("model_profiling", None),
    }
    for switch, (key, value) in sections.items():
        report = make(**{switch: False}).profile_training_pipeline(small_model(), small_loader(), 2)
        assert report[key] is value, switch
        others = {"data_loading", "model_profiling"} - {key}
        assert all(report[other] for other in others)
    for switch, keys in {
        "monitor_cpu": ("cpu", "process_cpu"),
        "monitor_memory": ("memory", "process_memory"),
    }.items():
        report = make(**{switch: False}).profile_training_pipeline(small_model(), small_loader(), 2)
        got = report["performance_monitoring"]
        assert all(got[key] is None for key in keys)
        assert all(got[key] for key in {"cpu", "memory"} - set(keys)), switch
    profiler = make(profile_model_forward=False, with_stack=False)
    profiler.profile_training_pipeline(small_model(), small_loader(), 2)
    names = {row["name"] for row in profiler.pytorch_profiler.report.operators}
    assert "forward_pass" not in names and "backward_pass" in names
    starved = [(torch.ones(4, 6), torch.zeros(4, dtype=torch.int64))] * 3
    report = make(enable_optimizations=False).profile_training_pipeline(small_model(), starved, 2)
    assert report["model_optimizations"]["suggested"] == []


def test_functions(make, ks):
    kept = []

    def inner(size):
        # From the system: malloc may have as much that was freed.
        memory = mmap.mmap(-1, size)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        kept.append(memory)

    def outer(size, times):
        for _ in range(times):
            inner(size)
        return "done"

    profiler = make()
    result = profiler.profile_function(outer, 48_000_000, times=3)
    assert result["result"] == "done" and result["memory_delta"] == pytest.approx(144, rel=0.1)
    rows = {row["name"]: row for row in result["hot_functions"]}
    assert rows["inner"]["calls"] == 3 and rows["outer"]["calls"] == 1
    assert rows["inner"]["line"] == inner.__code__.co_firstlineno
    assert rows["outer"]["total_time"] <= result["execution_time"]
    with pytest.raises(ZeroDivisionError):
        profiler.profile_function(lambda: 1 / 0)
    with ks.FunctionProfiler(), pytest.raises(RuntimeError, match="another one is on"):
        profiler.profile_function(len, [1])
    assert profiler.profile_function(len, [1])["result"] == 1


def test_compiled_models(make):
    """Compiling is counted: one function, no break."""
    torch._dynamo.reset()
    logging.getLogger("torch").setLevel(logging.ERROR)
    model = torch.compile(nn.Linear(6, 3), backend="eager")
    report = make(with_stack=False).profile_training_pipeline(model, small_loader(), 3)
    assert report["compilation"]["functions_compiled"] >= 1
    assert report["compilation"]["graph_breaks"] == 0 and report["compilation"]["graphs"] >= 1
    assert 0 < report["compilation"]["compile_time"]
    again = make(with_stack=False).profile_training_pipeline(model, small_loader(), 3)
    assert again["compilation"]["graphs"] == again["compilation"]["recompiles"] == 0
    off = make(profile_model_compilation=False, with_stack=False)
    report = off.profile_training_pipeline(model, small_loader(), 2)
    assert report["compilation"] is None
