"""Goal: debugging can be switched at any time, changes no result, says its cost, leaves nothing
behind and never raises. Method: the same training with and without it, bit by bit; what is hooked
and patched compared before and after; records read back from the logger and the files."""

import json
import logging
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
nn, F = torch.nn, torch.nn.functional
ALL = "debug_"


class Records(logging.Handler):
    def __init__(self):
        super().__init__(logging.DEBUG)
        self.found = []

    def emit(self, record):
        self.found.append(record)

    def of(self, kind):
        return [r for r in self.found if r.kind == kind]


@pytest.fixture
def debug(ks, tmp_path, monkeypatch):
    """The package, where switches without a folder write into the test's."""
    import kinetoscope.debug as package

    monkeypatch.chdir(tmp_path)
    package.disable_debugging()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of a few numbers only wait for each other
    yield package
    torch.set_num_threads(threads)
    package.disable_debugging()


@pytest.fixture
def records():
    handler, logger = Records(), logging.getLogger("kinetoscope.debug")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 3)
        self.factor = 1.0

    def forward(self, x, scale=1.0):
        return self.head(self.body(x * scale)) * self.factor


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return x, x[:3].argmax()


def train(epochs=1, on_step=None, begin=None, bad_step=None):
    """Losses, and all that the model and the optimizer hold afterwards."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    if begin is not None:
        begin(model, optimizer)
    losses, step = [], 0
    for _ in range(epochs):
        for x, y in torch.utils.data.DataLoader(Samples(), 8, shuffle=True):
            step += 1
            model.factor = float("inf") if step == bad_step else 1.0
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, scale=0.5), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
            if on_step is not None:
                on_step(step)
    state = [t.clone() for t in model.state_dict().values()]
    state += [t for s in optimizer.state.values() for t in s.values()]
    return losses, state, torch.get_rng_state()


def is_same(one, other):
    losses = str(one[0]) == str(other[0])  # NaN is not equal to itself
    tensors = all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))
    return losses and tensors and torch.equal(one[2], other[2])


def hooked():
    """Everything of torch and Python that debugging could leave something in."""
    modules, optimizers = nn.modules.module, sys.modules["torch.optim.optimizer"]
    loaders = torch.utils.data.dataloader
    return (
        dict(modules._global_forward_pre_hooks),
        dict(modules._global_forward_hooks),
        dict(optimizers._global_optimizer_pre_hooks),
        dict(optimizers._global_optimizer_post_hooks),
        torch.autograd.backward,
        torch.amp.GradScaler.step,
        loaders._BaseDataLoaderIter.__next__,
        *(dict(vars(c)) for c in (loaders._SingleProcessDataLoaderIter,)),
        sys.excepthook,
        list(logging.getLogger("kinetoscope.debug").handlers),
        logging.getLogger("kinetoscope.debug").level,
        torch.is_anomaly_enabled(),
    )


def hooks_of(model):
    tables = [v for m in model.modules() for k, v in vars(m).items() if k.endswith("_hooks")]
    return sum(len(table) for table in tables if isinstance(table, dict))


# -------------------------------------------------------------------- results


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("bad_step", [None, 5])
def test_results_are_the_same_bit_for_bit(debug, with_model, bad_step, tmp_path):
    """Step 5 gives NaN, whose forward is made again; dropout goes on as without that."""
    plain = train(2, bad_step=bad_step)

    def begin(model, optimizer):
        names = [n for n in debug.SWITCHES if n.startswith(ALL)]
        if with_model:
            debug.enable_debugging(names, model, optimizer, folder=tmp_path)
        else:
            debug.enable_debugging(names)

    watched = train(2, begin=begin, bad_step=bad_step)
    assert is_same(plain, watched)
    status = debug.get_debugging_status()
    assert all(status[n]["enabled"] for n in debug.SWITCHES if n.startswith(ALL))
    assert status["debug_gradient_norms"]["cost_us_per_step"] > 0


def test_bad_step_is_named_with_keyword_arguments(debug, records):
    train(begin=lambda m, o: debug.enable_debugging("gradient_norms", m), bad_step=5)
    (record,) = records.of("not_finite")
    assert record.facts["operator"] == "mul" and record.facts["module"] == ""
    assert (record.facts["step"], record.facts["last_good_step"]) == (5, 4)


@pytest.mark.parametrize("wait", [False, True])
def test_a_step_that_is_looked_at_later(debug, records, monkeypatch, wait):
    """As on a GPU: the optimizer has spoilt all parameters when the numbers are there."""
    from kinetoscope.debug import gradient_health

    monkeypatch.setattr(gradient_health._Pending, "is_late", True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debug.enable_debugging("gradient_norms", model, wait=wait)
    for step in range(1, 6):
        factor = float("inf") if step == 4 else 1.0
        optimizer.zero_grad()
        model[0].register_forward_hook(lambda m, args, output, f=factor: output * f)
        F.cross_entropy(model(torch.randn(8, 8)), torch.arange(8) % 3).backward()
        optimizer.step()
    debug.disable_debugging()
    (record,) = records.of("not_finite")
    facts = record.facts
    assert (facts["cause"], facts["step"], facts["last_good_step"]) == ("forward", 4, 3)
    assert ("operator" in facts) is wait


def test_names_are_found_without_a_model(debug, records):
    train(begin=lambda m, o: debug.enable_debugging("gradient_norms"))
    names = records.of("gradient_norms")[0].facts["norms"]
    assert set(names) == {n for n, _ in Model().named_parameters()}


def test_norms_are_those_of_torch(debug, records):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debug.enable_debugging("gradient_norms", model)
    F.cross_entropy(model(torch.randn(8, 8)), torch.arange(8) % 3).backward()
    expected = {n: p.grad.norm().item() for n, p in model.named_parameters()}
    total = nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()
    optimizer.step()
    (record,) = records.of("gradient_norms")
    assert record.facts["norms"] == pytest.approx(expected, rel=1e-6)
    assert record.facts["norm"] == pytest.approx(total, rel=1e-6)


def test_norms_are_without_the_scale(debug, records):
    losses, _, _ = train(begin=lambda m, o: debug.enable_debugging("gradient_norms", m))
    found = [r.facts["loss"] for r in records.of("gradient_norms")]
    assert found == pytest.approx(losses, rel=1e-6)
    assert all(0 < r.facts["norm"] < 20 for r in records.of("gradient_norms"))


# -------------------------------------------------------------------- switching


def test_nothing_is_left_behind(debug, tmp_path):
    torch.optim.SGD(Model().parameters(), 0.1)
    before, model = hooked(), Model()
    count = hooks_of(model)
    debug.enable_debugging(None, model, folder=tmp_path, on_incident=("anomaly",))
    assert hooked() != before and hooks_of(model) > count
    debug.disable_debugging()
    assert hooked() == before and hooks_of(model) == count


def test_switches_in_the_middle_of_a_training(debug, records):
    def on_step(step):
        if step == 3:
            debug.enable_debugging(["memory_usage", "debug_lr_scheduling"])
        if step == 6:
            debug.disable_debugging()

    assert is_same(train(on_step=on_step), train())
    assert len(records.of("memory_usage")) == 3
    assert records.of("lr_scheduling")[0].facts["learning_rates"] == [1e-3]


def test_wrong_use_is_told(debug):
    with pytest.raises(ValueError, match="gradient_norm'.*gradient_norms"):
        debug.enable_debugging(["gradient_norm"])
    with pytest.raises(TypeError, match="foldr.*folder"):
        debug.enable_debugging(foldr="x")
    with pytest.raises(ValueError, match="on_incident"):
        debug.enable_debugging(on_incident="anomaly")
    with pytest.raises(RuntimeError, match="off"):
        debug.add_metric("x", lambda step: 1)
    assert not any(s["enabled"] for s in debug.get_debugging_status().values())


def test_a_watch_that_fails_is_switched_off(debug, records, monkeypatch):
    from kinetoscope.debug import progress_watches

    def fail(*_):
        raise OSError("planted")

    monkeypatch.setattr(progress_watches.LearningRate, "step_begins", fail)
    expected = train()
    begin = lambda m, o: debug.enable_debugging(["lr_scheduling", "memory_usage"])  # noqa: E731
    assert is_same(train(begin=begin), expected)
    (record,) = records.of("failure")
    assert "planted" in record.facts["failure"] and len(records.of("memory_usage")) == 8


# -------------------------------------------------------------------- what is written


def test_records_of_each_switch(debug, records):
    class Stopping:
        best, patience = 1.0, 3

        def __init__(self):
            self.waited = 0

    stopping = Stopping()
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    debug.enable_debugging(None, model, schedules=[schedule], early_stopping=stopping)
    for x, y in torch.utils.data.DataLoader(Samples(), 32):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            model(x), model(x)
        model.train()
        stopping.waited += 1
    debug.note("data_splits", train=64, validation=16)
    debug.disable_debugging()
    assert records.of("data_loading")[0].facts["shapes"] == [[32, 8], [32]]
    forward = [r.facts for r in records.of("forward_pass")]
    assert forward[0]["inputs"] == [{"shape": [32, 8], "dtype": "float32", "device": "cpu"}]
    rows = next(facts["modules"] for facts in forward if "modules" in facts)
    assert {"module": "body.0", "class": "Linear", "outputs": ["[32, 16] float32 cpu"]} in rows
    assert records.of("device_placement")[0].facts["parameters"] == {"cpu": 227}
    assert [r.facts["batches"] for r in records.of("validation")] == [2, 2]
    assert records.of("early_stopping")[-1].facts["waited"] == 2
    rates = records.of("lr_scheduling")
    assert [r.facts["learning_rates"] for r in rates] == [[0.1], [0.05]]
    assert rates[1].facts["schedules"][0]["class"] == "StepLR"
    assert records.of("backward_pass")[0].facts["layers"] == 2
    assert records.of("data_splits")[0].facts == {"train": 64, "validation": 16}


def test_json_lines_have_the_rank(debug, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    train(begin=lambda m, o: debug.enable_debugging("mixed_precision", m, folder=tmp_path))
    debug.disable_debugging()
    (path,) = tmp_path.glob("debug.rank3.*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    scales = [row for row in rows if row["kind"] == "mixed_precision"]
    assert len(scales) == 8 and {row["rank"] for row in rows} == {3}
    assert [row["step"] for row in scales] == list(range(1, 9))
    assert scales[0]["facts"]["scale"] == 8.0 and not scales[0]["facts"]["is_skipped"]


def test_metrics(debug, records):
    class Writer:
        written = []

        def add_scalar(self, name, value, step):
            self.written.append((name, value, step))

    def begin(model, optimizer):
        debug.enable_debugging("gradient_norms", model, tensorboard=Writer())
        debug.add_metric("double", lambda step: 2 * step, every=4)
        debug.add_metric("broken", lambda step: 1 / 0)

    train(begin=begin)
    assert [r.facts["double"] for r in records.of("metric")] == [8.0, 16.0]
    assert ("kinetoscope/double", 8.0, 4) in Writer.written
    assert len([w for w in Writer.written if w[0] == "kinetoscope/loss"]) == 8
    assert [r.facts["metric"] for r in records.of("failure")] == ["broken"]
    debug.remove_metric("double")
    with pytest.raises(KeyError):
        debug.remove_metric("double")


# -------------------------------------------------------------------- when it goes wrong


def test_incident_switches_anomalies_and_a_profiler_on(debug, records, tmp_path):
    seen = []

    def begin(model, optimizer):
        options = {"on_incident": ("anomaly", "profiler"), "incident_steps": 2}
        debug.enable_debugging("forward_pass", model, folder=tmp_path, **options)

    train(begin=begin, bad_step=4, on_step=lambda step: seen.append(torch.is_anomaly_enabled()))
    assert seen == [False] * 3 + [True] + [False] * 4
    (record,) = records.of("profiler")
    assert record.facts["failure"] is None
    import kinetoscope

    assert kinetoscope.open(record.facts["folder"]).operators


PROGRAM = """
import sys, torch, kinetoscope.debug as debug
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
debug.enable_debugging("gradient_norms", model, folder=sys.argv[1])
for step in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
raise RuntimeError("planted")
"""


def test_last_steps_are_written_when_a_program_crashes(ks, tmp_path):
    root = os.path.dirname(os.path.dirname(ks.__file__))
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "RuntimeError: planted" in done.stderr
    (path,) = tmp_path.glob("last_steps.*.jsonl")
    first, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert first["reason"] == "RuntimeError: planted"
    assert [r["step"] for r in rows if r["kind"] == "gradient_norms"] == [1, 2, 3]


# -------------------------------------------------------------------- with the other parts


def test_switches_of_a_pipeline(debug, make, records):
    loader = torch.utils.data.DataLoader(Samples(), 8)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    profiler = make(debug_gradient_norms=True, debug_data_loading=True, use_torch_profiler=False)
    before = hooked()
    profiler.profile_training_pipeline(model, loader, 4, optimizer=optimizer)
    assert hooked() == before and records.of("gradient_norms") and records.of("data_loading")
    records.found.clear()
    make(use_torch_profiler=False).profile_training_pipeline(model, loader, 4, optimizer=optimizer)
    assert records.found == []


def test_performance_of_a_model(debug):
    loader = torch.utils.data.DataLoader(Samples(), 8)
    report = debug.profile_model_performance(loader, 3, model=nn.Linear(8, 3))
    names = [row["name"] for row in report["model_profiling"]["top_operations"]]
    assert any(name.startswith("aten::") for name in names) and report["steps"] == 3


class OneBad(Samples):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return (x * float("nan") if index == 21 else x), y


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("late", [False, True])
def test_index_of_a_bad_sample(debug, records, workers, late):
    """Switched on in the middle of an epoch, only the row is known in that epoch."""
    loader = torch.utils.data.DataLoader(OneBad(), 8, num_workers=workers)
    batches = iter(loader)
    if not late:
        debug.enable_debugging("data_loading")
        batches = iter(loader)
    else:
        next(batches)
        debug.enable_debugging("data_loading")
    for _ in batches:
        pass
    (found,) = [r.facts for r in records.found if r.levelno >= logging.WARNING]
    assert (found["row"], found["index"], found["count"]) == (5, None if late else 21, 8)
    records.found.clear()
    for _ in loader:
        pass
    assert [r.facts["index"] for r in records.found if "row" in r.facts] == [21]


def test_a_handler_that_raises_ends_debugging_only(debug):
    class Broken(logging.Handler):
        def handle(self, record):
            raise RuntimeError("planted")

    handler, logger = Broken(), logging.getLogger("kinetoscope.debug")
    logger.addHandler(handler)
    try:
        watched = train(begin=lambda m, o: debug.enable_debugging(None, m))
        debug.disable_debugging()
    finally:
        logger.removeHandler(handler)
    assert is_same(watched, train())


def test_import_is_light(ks):
    root = os.path.dirname(os.path.dirname(ks.__file__))
    code = "import sys, kinetoscope.debug as d; d.SWITCHES; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": root}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_a_compiled_model_is_compiled_once(debug, records):
    """Its names are those of the program, and its modules get no hooks."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debug.enable_debugging([n for n in debug.SWITCHES if n.startswith(ALL)], compiled)
    for step in range(1, 13):
        optimizer.zero_grad()
        x = torch.full((4, 8), 1e30 if step == 12 else 1.0)
        if step == 12:
            with torch.no_grad():
                model[0].weight.fill_(1e30)
        F.cross_entropy(compiled(x), torch.arange(4) % 3).backward()
        optimizer.step()
    debug.disable_debugging()
    assert len(graphs) == 1
    (record,) = [r for r in records.found if r.levelno >= logging.WARNING]
    assert (record.facts["module"], record.facts["operator"]) == ("0", "addmm")


def test_a_wrapped_model_has_the_names_of_the_program(debug, records):
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
        wrapped = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
        debug.enable_debugging("gradient_norms", wrapped)
        for step in range(1, 4):
            if step == 3:
                model[1].weight.register_hook(lambda grad: grad * float("nan"))
            optimizer.zero_grad()
            wrapped(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    finally:
        torch.distributed.destroy_process_group()
    (record,) = records.of("not_finite")
    assert record.facts["cause"] == "backward" and record.facts["parameter"] == "1.weight"
