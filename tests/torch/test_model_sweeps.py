"""Goal: sweeps find what is quicker and right, say why the rest is not, and change nothing. Method:
models whose best setting is known, wrong ones planted, on real torch."""

import json

import pytest

torch = pytest.importorskip("torch")

from tuned_models import Napping, batch, images, mlp, state  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

HALF = {"dtype": torch.bfloat16, "enabled": True}
FULL = {"dtype": torch.float32, "enabled": False}
QUICK = {"seconds": 0.2}


@pytest.fixture
def tune(ks):
    import kinetoscope.tune

    return kinetoscope.tune


def by_label(result):
    return {row["label"]: row for row in result.rows}


@pytest.mark.parametrize(
    ("rig", "best", "verdict"),
    [
        (Napping(), HALF, "faster"),
        (Napping(2, 24), FULL, "slower"),
        (Napping(factor=9), FULL, "rejected"),
        (Napping(factor=1.05), FULL, "rejected"),
    ],
)
def test_the_best_precision_is_quick_and_right(tune, counted_time, rig, best, verdict):
    rig.eval()
    before = state(rig)
    result = tune.sweep_precision(rig, torch.randn(4, 16), [FULL, HALF], seconds=15)
    before["random"] = state(rig)["random"]  # randn() above
    assert state(rig) == before
    assert result.best == best and [row["verdict"] for row in result] == ["baseline", verdict]
    if verdict == "faster":
        row = result.best_row
        assert 10 < row["speedup_interval"]["low"] <= row["speedup"] <= 13
        # What is as clear as day is told in four rounds, which give no interval of the time alone.
        interval = row["interval"] or {"low": row["time"], "high": row["time"]}
        assert 0.0015 < interval["low"] <= row["time"] <= interval["high"]
        assert result.code[0] == 'with torch.autocast("cpu", dtype=torch.bfloat16):'


def test_what_is_hopeless_is_not_waited_for(tune, counted_time):
    result = tune.sweep_precision(Napping(2, 250).eval(), torch.randn(4, 16), [FULL, HALF], **QUICK)
    assert result.best == FULL and result.rows[1]["verdict"] == "left_out"
    assert "many times as long" in result.rows[1]["reason"]


def test_float16_that_overflows_is_rejected(tune):
    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.inner(x * 1e5) / 1e5

    configs = [FULL, {"dtype": torch.float16, "enabled": True}]
    torch.manual_seed(0)
    result = tune.sweep_precision(Large().eval(), torch.randn(4, 8) * 10, configs, **QUICK)
    row = result.rows[1]
    assert row["verdict"] == "rejected" and result.best == FULL
    assert "output 0 overflows: " in row["reason"]
    assert row["reason"].endswith("not finite, first those of the module inner")


def test_float16_trains_with_a_loss_that_is_scaled(tune):
    """Its gradients would be zero: they are 1e-8 and smaller, less than the least of float16."""
    model, (x, y) = mlp(), batch()

    def tiny_loss(output, target):
        return torch.nn.functional.cross_entropy(output, target) * 1e-5

    configs = [FULL, {"dtype": torch.float16, "enabled": True}]
    before = state(model)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    result = tune.sweep_precision(
        model, x, configs, target=y, loss_fn=tiny_loss, optimizer=sgd, **QUICK
    )
    assert state(model) == before and not sgd.state_dict()["state"]
    assert result.rows[1]["reason"] is None, result.rows[1]["reason"]


def test_configs_that_are_none_are_refused(tune):
    model, (x, _) = mlp().eval(), batch()
    for config in ({"dtype": "half"}, {"type": torch.float16}, {"dtype": torch.int8}):
        with pytest.raises(ValueError, match="precision|autocast"):
            tune.sweep_precision(model, x, [config])
    with pytest.raises(TypeError, match="Module"):
        tune.sweep_precision(print, x)
    with pytest.raises(ValueError, match="backends"):
        tune.sweep_attention(model, x, ["fast"])
    with pytest.raises(ValueError, match="threads"):
        tune.sweep_threads(model, x, [0])


def test_a_model_that_fails_says_so_and_is_as_before(tune):
    model, before = mlp(), None
    before = state(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tune.sweep_precision(model, torch.ones(2, 3))
    assert state(model) == before


# -------------------------------------------------------------------- compilation with a bug


class Wrong(torch.nn.Module):
    """What a compiler with a bug makes of a model."""

    def __init__(self, model, bug):
        super().__init__()
        self._orig_mod = model
        self._bug = bug

    def forward(self, x):
        return self._bug(self._orig_mod, x)


def shifted(model, x):
    return model(x) * 1.01


def without_gradient(model, x):
    hidden = model[:-1](x)
    return torch.nn.functional.linear(hidden, model[-1].weight.detach(), model[-1].bias)


def with_half_gradient(model, x):
    hidden = model[:-1](x)
    return hidden @ model[-1].weight.T + (model[-1].bias + model[-1].bias.detach()) / 2


def right(model, x):
    return model(x)


@pytest.mark.parametrize(
    ("bug", "reason"),
    [
        (right, None),
        (shifted, "output 0 is off by 0.01"),
        (without_gradient, "gradient of 3.weight is there in one of the two only"),
        (with_half_gradient, "gradient of 3.bias is off"),
    ],
)
def test_compilation_that_changes_results_is_rejected(tune, monkeypatch, bug, reason):
    monkeypatch.setattr(torch, "compile", lambda model, mode=None: Wrong(model, bug))
    model, (x, y) = mlp(), batch()
    result = tune.sweep_compile(model, x, ["default"], target=y, **QUICK)
    row = result.rows[1]
    assert row["verdict"] != "rejected" if reason is None else reason in row["reason"]


def test_an_optimizer_with_a_bug_is_rejected_by_its_losses(tune, monkeypatch):
    from kinetoscope.tune import work

    plain = work.rebuilt

    def spoiled(optimizer, source, model, kind=None):
        made = plain(optimizer, source, model, kind)
        for group in made.param_groups if kind == "fused" else ():
            group["lr"] *= 10
        return made

    monkeypatch.setattr(work, "rebuilt", spoiled)
    model, (x, y) = mlp(), batch()
    adam = torch.optim.Adam(model.parameters(), 1e-2)
    rows = by_label(tune.sweep_optimizer(model, x, target=y, optimizer=adam, **QUICK))
    assert rows["fused"]["verdict"] == "rejected" and "loss of step" in rows["fused"]["reason"]
    assert rows["foreach"]["reason"] is None and rows["loop"]["reason"] is None


def test_a_real_compilation_is_right(tune):
    model, (x, _) = mlp(layers=2).eval(), batch()
    before = state(model)
    result = tune.sweep_compile(model, x, ["default"], **QUICK)
    assert state(model) == before
    assert result.rows[1]["reason"] is None, result.rows[1]["reason"]
    assert result.rows[1]["error"] < 1e-5 and result.rows[1]["peak_bytes"] > 0


# -------------------------------------------------------------------- the other sweeps


def test_layout_of_images(tune):
    model = images()
    x, y = torch.randn(4, 3, 16, 16), torch.arange(4)
    before = state(model)
    result = tune.sweep_channels_last(model, x, target=y, **QUICK)
    assert state(model) == before
    assert [row["reason"] for row in result] == [None, None]
    assert result.rows[1]["code"][0] == "model = model.to(memory_format=torch.channels_last)"
    assert "no weights of four" in tune.sweep_channels_last(mlp(), batch()[0], **QUICK).table()


def test_a_model_of_half_precision_is_not_held_to_more(tune):
    model, (x, _) = mlp().bfloat16().eval(), batch()
    result = tune.sweep_compile(model, x.bfloat16(), ["default"], **QUICK)
    assert result.rows[1]["reason"] is None, result.rows[1]["reason"]


def test_backends_of_attention(tune):
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    rows = by_label(tune.sweep_attention(model, torch.randn(2, 16, 32), ["math", "cudnn"], **QUICK))
    assert rows["math"]["reason"] is None
    assert rows["cudnn"]["verdict"] == "failed" and rows["cudnn"]["reason"]
    none = tune.sweep_attention(mlp(), batch()[0], **QUICK)
    assert len(none) == 1 and "does not call" in none.table()


def test_threads(tune):
    model, (x, _) = mlp().eval(), batch()
    result = tune.sweep_threads(model, x, [1, 2], **QUICK)
    assert [row["config"]["threads"] for row in result] == [1, 2]
    assert torch.get_num_threads() == 1


def test_optimizers_give_the_same_losses(tune):
    model, (x, y) = mlp(), batch()
    adam = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    adam.step()
    before, kept = state(model), str(adam.state_dict())
    result = tune.sweep_optimizer(model, x, target=y, optimizer=adam, **QUICK)
    assert state(model) == before and str(adam.state_dict()) == kept
    assert [row["reason"] for row in result] == [None] * 4
    others = torch.optim.SGD(mlp().parameters(), 1e-3)
    with pytest.raises(ValueError, match="not of this model"):
        tune.sweep_optimizer(model, x, target=y, optimizer=others, **QUICK)


def test_checkpointing_saves_what_blocks_keep(tune):
    width, size = 64, 512
    model = torch.nn.Sequential(*(mlp(width)[:3] for _ in range(3)), torch.nn.Linear(width, 4))
    x, y = batch(width, size)
    before = state(model)
    result = tune.sweep_checkpointing(model, x, ["0", "1", "2"], target=y, **QUICK)
    assert state(model) == before
    rows = by_label(result)
    # Each of the three layers of a block keeps a tensor; a block in which all is made again keeps
    # its input, and the tensors of one block are there while it is made again.
    kept = size * width * 4
    assert all(row["reason"] is None for row in result)
    assert 2 * kept <= rows["all blocks"]["bytes_saved"] <= 5 * kept
    limit = rows["all blocks"]["peak_bytes"]
    bounded = tune.sweep_checkpointing(
        model, x, ["0", "1", "2"], target=y, bytes_max=limit + 1, **QUICK
    )
    assert bounded.best_row["peak_bytes"] <= limit + 1


def test_checkpointing_that_counts_batches_twice_is_rejected(tune):
    norm = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64))
    model = torch.nn.Sequential(norm, torch.nn.Sequential(torch.nn.Linear(64, 4)))
    x, y = batch()
    rows = by_label(tune.sweep_checkpointing(model, x, target=y, **QUICK))
    assert rows["0"]["verdict"] == "rejected" and "buffer 0.1" in rows["0"]["reason"]
    assert rows["1"]["reason"] is None
    with pytest.raises(ValueError, match="blocks"):
        tune.sweep_checkpointing(torch.nn.Linear(64, 4), x, target=y)


def test_quantisation_tells_speed_size_and_accuracy(tune):
    model, (x, _) = mlp(256, 2).eval(), batch(256)
    before = state(model)
    result = tune.sweep_quantization(model, x, score=lambda out: out.shape[0], **QUICK)
    assert state(model) == before
    rows = by_label(result)
    plain, small = rows["as it is"], rows["int8_dynamic"]
    assert small["reason"] is None and small["error"] > 0
    assert 0.2 < small["size_bytes"] / plain["size_bytes"] < 0.35
    assert plain["agreement"] == 1 and small["score"] == 8
    assert "torchao" in (rows["int4_weight_only"]["reason"] or "torchao")
    by_size = tune.sweep_quantization(
        model, x, [{"quantization": "int8_dynamic"}], objective="size", **QUICK
    )
    fine = small["verdict"] in ("faster", "no_difference")
    assert not fine or by_size.best in ({"quantization": "int8_dynamic"}, {"quantization": None})
    with pytest.raises(ValueError, match="quantization is one of"):
        tune.sweep_quantization(model, x, [{"quantization": "int2"}])


# -------------------------------------------------------------------- largest batch


def test_the_largest_batch_within_bytes(tune):
    model = mlp().eval()
    x, _ = batch()
    limit = 300_000
    result = tune.largest_batch(model, x, bytes_max=limit)
    size = result.best["batch_size"]
    fitting = [row for row in result if row["reason"] is None]
    assert max(row["config"]["batch_size"] for row in fitting) == size
    assert all(row["peak_bytes"] <= limit for row in fitting)
    assert any(row["config"]["batch_size"] == size + 1 for row in result)  # was tried, or foreseen
    weights = sum(p.numel() * 4 for p in model.parameters())
    assert size == (limit - weights) // (3 * 64 * 4)  # so many outputs at a time
    assert tune.largest_batch(model, x, bytes_max=1000).best is None
    assert tune.largest_batch(model, x, bytes_max=limit, batch_max=5).best["batch_size"] == 5


@pytest.mark.parametrize("most", [1, 37])
def test_out_of_memory_is_a_size_that_does_not_fit(tune, most):
    class Greedy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(64, 4)

        def forward(self, x):
            if len(x) > most:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
            return self.inner(x)

    result = tune.largest_batch(Greedy(), batch()[0], batch_max=64)
    assert result.best == {"batch_size": most}
    reasons = {row["reason"] for row in result if row["config"]["batch_size"] > most}
    assert reasons <= {"out of memory"}


def test_other_failures_end_the_search(tune):
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        tune.largest_batch(Broken(), batch()[0])


def test_a_limit_that_cannot_be_watched_is_refused(tune, monkeypatch):
    """On a CPU nothing but the peak of a step stops the search."""
    from kinetoscope.tune import stopwatch

    model, (x, _) = mlp().eval(), batch()
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(RuntimeError, match="profiler of the program records"),
    ):
        tune.largest_batch(model, x, bytes_max=300_000)
    monkeypatch.setattr(stopwatch, "peak_rise", lambda function, device: None)
    with pytest.raises(RuntimeError, match="does not tell of memory"):
        tune.largest_batch(model, x, bytes_max=300_000)


# -------------------------------------------------------------------- modes and checks


class Watching(torch.nn.Module):
    """Counts forwards in training mode. Copies count together."""

    modes: list = []

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 4), torch.nn.Dropout(0.5))

    def forward(self, x):
        self.modes.append((self.training, self.body[1].training))
        return self.body(x)


@pytest.mark.parametrize(
    "sweep",
    [
        lambda tune, m, x: tune.sweep_quantization(
            m, x, [{"quantization": "int8_dynamic"}], **QUICK
        ),
        lambda tune, m, x: tune.sweep_threads(m, x, [1, 2], training=False, **QUICK),
        lambda tune, m, x: tune.largest_batch(m, x, training=False, batch_max=2),
        lambda tune, m, x: tune.tune_model(m, x, training=False, what=["threads"], **QUICK),
    ],
)
def test_inference_that_is_asked_for_is_in_evaluation_mode(tune, sweep):
    model, (x, _) = Watching().train(), batch()
    Watching.modes.clear()
    before = state(model)
    sweep(tune, model, x)
    assert state(model) == before and model.training and model.body[1].training
    assert set(Watching.modes) == {(False, False)}


def test_a_model_in_training_mode_trains(tune):
    model, (x, y) = Watching().train(), batch()
    Watching.modes.clear()
    tune.sweep_threads(model, x, [1, 2], target=y, **QUICK)
    assert (True, True) in Watching.modes


def test_float16_trains_as_the_program_would_with_a_scaler(tune, monkeypatch):
    """An optimizer steps over gradients that are scaled back."""
    from kinetoscope.tune import work

    made, make = [], work.make_scaler

    def kept(device, scale):
        made.append(make(device, scale))
        return made[-1]

    monkeypatch.setattr(work, "make_scaler", kept)
    model, (x, y) = mlp(), batch()
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    configs = [FULL, {"dtype": torch.float16, "enabled": True}]
    result = tune.sweep_precision(model, x, configs, target=y, optimizer=sgd, **QUICK)
    row = result.rows[1]
    assert row["reason"] is None or row["verdict"] == "left_out", row["reason"]
    # One for the training that is compared, one for the steps that are timed.
    assert len(made) == 2 and all(scaler.get_scale() >= 2**10 for scaler in made)


def test_float16_without_a_scaled_loss_is_found_out(tune, monkeypatch):
    from kinetoscope.tune import work

    monkeypatch.setattr(work, "SCALE_FIRST", 1.0)

    def tiny_loss(output, target):
        return torch.nn.functional.cross_entropy(output, target) * 1e-5

    model, (x, y) = mlp(), batch()
    configs = [FULL, {"dtype": torch.float16, "enabled": True}]
    result = tune.sweep_precision(model, x, configs, target=y, loss_fn=tiny_loss, **QUICK)
    assert result.rows[1]["verdict"] == "rejected" and "gradient" in result.rows[1]["reason"]


class Drawing(torch.nn.Module):
    """Draws random numbers in a module, that evaluation mode makes quiet, or not even that."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.inner = torch.nn.Linear(64, 4)
        self.dropout = torch.nn.Dropout(0.5 if kind == "dropout" else 0.0)

    def forward(self, x):
        if self.kind == "all" and self.training:
            x = x * torch.rand_like(x)
        return self.inner(self.dropout(x))


@pytest.mark.parametrize("mode", ["none", "dropout", "all"])
def test_models_are_compared_with_as_little_in_evaluation_mode_as_will_do(tune, mode):
    from kinetoscope.tune.contest import Contest
    from kinetoscope.tune.work import Work

    work = Work(Drawing(mode).train(), [batch()])
    with Contest(work, loss_steps=0):
        assert work.check_mode == mode


def test_how_much_a_model_makes_of_rounding_is_allowed_for(tune):
    from kinetoscope.tune.contest import Contest
    from kinetoscope.tune.work import Work

    class Sharp(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(64, 4)

        def forward(self, x):
            y = self.inner(x)
            return (y - y.detach().mul(1 - 1e-4)) * 1e4 + torch.sin(y * 1e5)

    calm, sharp = (Contest(Work(m.eval(), [batch()]), loss_steps=0) for m in (mlp(), Sharp()))
    with calm, sharp:
        assert calm._noise < 1e-5 and sharp._noise > 1e-3


def test_losses_of_other_seeds_say_how_far_they_may_be(tune):
    from kinetoscope.tune.contest import Contest
    from kinetoscope.tune.work import Work

    torch.manual_seed(0)
    still, drawing = (
        Contest(Work(Drawing(mode).train(), [batch()]), loss_steps=4) for mode in ("none", "all")
    )
    with still, drawing:
        assert still._spread == 0 < drawing._spread
        assert len(still._losses) == len(drawing._losses) >= 3


def test_the_smallest_of_none_is_none(tune):
    from kinetoscope.tune.quantized_rows import choose_smallest
    from kinetoscope.tune.result import SweepResult, empty_row

    rows = [empty_row("as it is", {}, "failed", "planted", code=[])]
    result = choose_smallest(SweepResult("quantization", rows, None, (), ["a note"]))
    assert result.best is None and result.code == [] and result.notes == ["a note"]


# -------------------------------------------------------------------- results


def test_results_are_tables_and_plain_data(tune, counted_time):
    result = tune.sweep_precision(Napping(2, 2, 9).eval(), torch.randn(4, 16), [FULL, HALF])
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["best"] == {"dtype": "float32", "enabled": False}
    assert plain["rows"][1]["verdict"] == "rejected"
    lines = result.table().splitlines()
    assert lines[1].startswith("* as it is") and "rejected" in lines[2] and "off by" in lines[3]
    assert str(result) == result.table()
    result.rows[1]["label"] = "<b>"
    page = result._repr_html_()
    assert page.count("<tr") == 3 and "&lt;b&gt;" in page and "<b>" not in page
    assert len(result) == 2 and "2 variants" in repr(result)
