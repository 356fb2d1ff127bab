"""Goal: ModelOptimizer, tune_model and benchmark_optimizations keep what helps, alone, and leave
the program alone. Method: models that are quick in one setting only, on real torch."""

import copy
import pickle
import time

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from tuned_models import Napping, batch, images, mlp, state  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]


@pytest.fixture
def optimizer(make):
    return lambda **switches: make(**switches).model_optimizer


def test_blind_it_suggests_alone(optimizer):
    model, o = mlp().eval(), optimizer(use_compile=True)
    x, _ = batch()
    made = o.optimize_model(model, {})
    assert made is not model and torch.equal(made(x), model(x))
    summary = o.get_optimization_summary()
    assert summary["optimizations_applied"] == [] and summary["total_optimizations"] == 0
    assert [entry["id"] for entry in summary["suggested"]] == ["precision", "compile"]
    assert o.optimize_model(model, {}, inplace=True) is model


def test_what_helps_is_applied_to_a_copy(optimizer, counted_time):
    model, x = Napping().eval(), torch.randn(4, 16)
    before, want = state(model), model(x).detach()
    o = optimizer()
    made = o.optimize_model(model, {}, example_inputs=x, seconds=15)
    assert state(model) == before
    summary = o.get_optimization_summary()
    assert summary["optimizations_applied"] == ["precision"] and summary["speedup"] > 2
    assert summary["code"][0].startswith('with torch.autocast("cpu", dtype=torch.')
    got = made(x)
    assert got.dtype == torch.float32 and not torch.equal(got, want)
    assert torch.allclose(got, want, rtol=0.03, atol=0.03)
    began_ns = counted_time.now_ns
    made(x)
    assert counted_time.now_ns - began_ns < 5_000_000
    assert torch.equal(copy.deepcopy(made)(x), got)
    assert torch.equal(pickle.loads(pickle.dumps(made))(x), want)  # as it was


def test_inplace_it_is_the_model_itself(optimizer, counted_time):
    model, x = Napping().eval(), torch.randn(4, 16)
    made = optimizer().optimize_model(model, {}, example_inputs=(x,), inplace=True, seconds=15)
    assert made is model and "forward" in vars(model)


@pytest.mark.parametrize(
    ("rig", "switches", "reason"),
    [
        (Napping(2, 24), {}, "not faster: slower"),
        (Napping(factor=9), {}, "output 0 is off"),
        (Napping(), {"use_mixed_precision": False}, None),
        (Napping(), {"enable_optimizations": False}, None),
    ],
)
def test_what_does_not_help_is_undone(optimizer, counted_time, rig, switches, reason):
    x, o = torch.randn(4, 16), optimizer(**switches)
    rig.eval()
    made = o.optimize_model(rig, {}, example_inputs=x, seconds=15)
    summary = o.get_optimization_summary()
    assert torch.equal(made(x), rig(x)) and summary["optimizations_applied"] == []
    reasons = [entry["reason"] for entry in summary["rejected"]]
    assert reasons == [] if reason is None else any(reason in text for text in reasons)


def test_in_training_memory_is_saved_where_that_is_asked_for(optimizer):
    blocks = (mlp()[:3] for _ in range(3))
    model = torch.nn.Sequential(*blocks, torch.nn.Linear(64, 4))
    x, y = batch(size=512)
    o = optimizer(gradient_checkpointing=True, use_mixed_precision=False)
    loss_fn = torch.nn.functional.cross_entropy
    made = o.optimize_model(model, {}, (x, y), loss_fn=loss_fn, seconds=15)
    assert o.get_optimization_summary()["optimizations_applied"] == ["checkpointing"]
    expected, found = (one(x).logsumexp(1).sum() for one in (model, made))
    expected.backward()
    found.backward()
    for a, b in zip(model.parameters(), made.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    smaller = optimizer(use_mixed_precision=False)._apply_memory_optimizations(
        model, (x, y), torch.nn.functional.cross_entropy
    )
    assert any("forward" in vars(module) for module in smaller.modules())
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_model_that_cannot_be_copied_stays_as_it_is(optimizer):
    class Locked(torch.nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("planted")

    model, o = Locked(16, 4).eval(), optimizer()
    assert o.optimize_model(model, {}, torch.randn(2, 16)) is model
    assert "planted" in o.get_optimization_summary()["suggested"][0]["title"]


def test_the_last_batch_of_a_pipeline_serves(make, counted_time):
    model = Napping()
    data = DataLoader(TensorDataset(torch.randn(16, 16), torch.arange(16) % 8), 4)
    profiler = make(use_torch_profiler=False)
    profiler.profile_training_pipeline(model, data, 2)
    made = profiler.model_optimizer.optimize_model(model.eval(), {}, seconds=15)
    summary = profiler.model_optimizer.get_optimization_summary()
    assert summary["optimizations_applied"] == ["precision"] and made is not model


# -------------------------------------------------------------------- whole programs


def test_benchmark_says_what_all_changes_gain(make, counted_time):
    model = Napping()
    data = DataLoader(TensorDataset(torch.randn(64, 16), torch.arange(64) % 8), 4)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    before = state(model)
    got = make().benchmark_optimizations(model, data, 4, optimizer=sgd, seconds=15)
    assert state(model) == before and not sgd.state_dict()["state"]
    gains = got["improvements"]
    assert gains["verdict"] == "faster" and 2 < gains["speedup_factor"] < 13
    assert gains["interval"]["low"] <= gains["speedup_factor"] <= gains["interval"]["high"]
    percent = gains["time_improvement_percent"]
    assert percent == pytest.approx(100 - 100 / gains["speedup_factor"])
    assert "precision" in got["optimized"]["optimizations"] and got["optimized"]["code"]
    assert got["baseline"]["step_time"] > 0.024 > got["optimized"]["step_time"]


def test_a_benchmark_in_which_nothing_helps(make):
    got = make(enable_optimizations=False).benchmark_optimizations(
        mlp(), DataLoader(TensorDataset(*batch(size=32)), 8), 2, seconds=1
    )
    gains = got["improvements"]
    assert (gains["speedup_factor"], gains["verdict"]) == (1, "cannot_tell")
    assert gains["interval"] == {"low": 1, "high": 1} and gains["std"] > 0
    assert got["optimized"]["optimizations"] == []
    with pytest.raises(ValueError, match="num_steps"):
        make().benchmark_optimizations(mlp(), [], 0)
    with pytest.raises(ValueError, match="empty"):
        make().benchmark_optimizations(mlp(), [], 2)


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(index)), index % 4


def test_a_loader_that_starves_its_model_is_part_of_the_plan(ks):
    model = images()
    loader = DataLoader(Slow(), 4)
    adam = torch.optim.Adam(model.parameters())
    before = state(model)
    result = ks.tune_model(model, loader, optimizer=adam, what=["dataloader"], seconds=2)
    assert state(model) == before and loader.num_workers == 0
    assert result.applied == ["dataloader"] and result.best["dataloader"]["num_workers"] >= 2
    assert result.improvements["verdict"] == "faster"
    assert result.code[0].startswith("loader = DataLoader(dataset, num_workers=")


def test_stages_follow_the_findings_of_a_report(ks):
    from kinetoscope.tune import stages
    from kinetoscope.tune.work import Work

    model = images()
    adam = torch.optim.Adam(model.parameters())
    work = Work(model, [(torch.randn(2, 3, 8, 8), torch.arange(2))], None, adam)
    names = stages.meant_for(work, adam, None, ["precision", "channels_last", "optimizer"])
    findings = [{"id": "optimizer.unfused"}, {"id": "input.starved"}, {"id": "layout.transposes"}]
    assert stages.order(names, findings) == ["optimizer", "channels_last", "precision"]
    assert stages.order(names, None) == ["precision", "channels_last", "optimizer"]
    assert "channels_last" not in stages.meant_for(Work(mlp(), [batch()]), None, None, None)
    with pytest.raises(ValueError, match="what can be tuned"):
        ks.tune_model(model, torch.randn(2, 3, 8, 8), what=["luck"])


def test_code_of_a_plan_can_be_pasted(ks):
    from kinetoscope.tune.setting import Setting

    setting = Setting("bfloat16", True, "reduce-overhead", "flash", ("0", "1"), "fused", 2)
    code = "\n".join(setting.code("cuda"))
    compile(code, "plan", "exec")
    words = ("set_num_threads(2)", "channels_last", 'mode="reduce-overhead"', "FLASH", "fused=True")
    assert all(word in code for word in words) and "torch.bfloat16" in code


def test_processes_of_a_distributed_model_are_refused(ks):
    wrapped = type("DistributedDataParallel", (torch.nn.Linear,), {})(4, 4)
    with pytest.raises(ValueError, match="before it is wrapped"):
        ks.sweep_precision(wrapped, torch.randn(2, 4))


# -------------------------------------------------------------------- models that are special


class Locked(torch.nn.Linear):
    def __deepcopy__(self, memo):
        raise RuntimeError("planted")


def test_inplace_needs_a_copy_to_try_too(optimizer):
    model, o = Locked(16, 4).eval(), optimizer()
    assert o.optimize_model(model, {}, torch.randn(2, 16), inplace=True) is model
    assert "planted" in o.get_optimization_summary()["suggested"][0]["title"]
    assert vars(model).get("forward") is None


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("name", ["DistributedDataParallel", "DataParallel", "FSDPModule"])
def test_models_of_several_processes_come_back_as_they_are(optimizer, name, is_inside):
    wrapped = type("Mine", (type(name, (torch.nn.Linear,), {}),), {})(4, 4)
    model, o = torch.nn.Sequential(wrapped) if is_inside else wrapped, optimizer()
    for inplace in (False, True):
        assert o.optimize_model(model, {}, torch.randn(2, 4), inplace=inplace) is model
        (suggestion,) = o.get_optimization_summary()["suggested"]
        assert name in suggestion["title"] and "before it is wrapped" in suggestion["title"]


class TwoInputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 4)

    def forward(self, x, y):
        return self.inner(x + y)


class OneInput(TwoInputs):
    def forward(self, x):
        return self.inner(x)


class OneNeeded(TwoInputs):
    def forward(self, x, mask=None):
        assert mask is None
        return self.inner(x)


@pytest.mark.parametrize("kind", [TwoInputs, OneInput, OneNeeded])
def test_a_pair_is_what_the_model_needs(optimizer, kind):
    second = torch.randn(2, 8) if kind is TwoInputs else torch.arange(2)
    o = optimizer()
    o.optimize_model(kind(), {}, (torch.randn(2, 8), second), seconds=0.2)
    tried = o.get_optimization_summary()["tried"]
    assert tried[0]["verdict"] == "baseline" and tried[0]["reason"] is None


def test_changes_that_are_wrong_on_the_model_itself_are_left_out(
    optimizer, counted_time, monkeypatch
):
    """Right in the trial, and another thing where it is applied."""
    from kinetoscope.tune import applied

    apply, x, o = applied.apply, torch.randn(4, 16), optimizer()

    def spoiled(model, setting, device_type):
        with torch.no_grad():
            model.inner.weight.mul_(2)
        return apply(model, setting, device_type)

    monkeypatch.setattr(applied, "apply", spoiled)
    model = Napping().eval()
    want = model(x)
    made = o.optimize_model(model, {}, x, seconds=15)
    summary = o.get_optimization_summary()
    assert summary["optimizations_applied"] == [] and summary["speedup"] is None
    assert torch.equal(made(x), want) and torch.equal(model(x), want)
    assert "output 0 is off" in summary["suggested"][0]["title"]


# -------------------------------------------------------------------- what nothing comes of


def test_a_model_that_never_agrees_with_itself(ks, optimizer):
    class Unsteady(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x).repeat(self.calls, 1)

    model, x = Unsteady(4, 4).eval(), torch.randn(2, 4)
    with pytest.raises(RuntimeError, match="nothing is compared with the model as it is"):
        ks.tune_model(model, x, what=["precision"], seconds=0.2)
    o = optimizer()
    o.optimize_model(model, {}, x)
    assert "model as it is" in o.get_optimization_summary()["suggested"][0]["title"]


def test_a_model_that_fails_while_it_is_timed_says_so(ks, monkeypatch):
    from kinetoscope.tune import stopwatch

    def fails(function, calls, device):
        raise RuntimeError("planted")

    monkeypatch.setattr(stopwatch, "time_least", fails)
    with pytest.raises(RuntimeError, match="planted"):
        ks.tune_model(mlp().eval(), batch()[0], what=["precision"], seconds=0.2)


def test_a_stream_that_ends_is_no_part_of_the_plan(ks):
    class Once(torch.utils.data.IterableDataset):
        def __init__(self):
            self.left = iter(torch.randn(12, 64))

        def __iter__(self):
            return self.left

    loader = DataLoader(Once(), 4)
    result = ks.tune_model(mlp().eval(), loader, what=["dataloader"], seconds=0.5, batches=2)
    assert "dataloader" not in result.best and "at its end" in result.table()
    assert result.improvements["speedup_factor"] == 1
