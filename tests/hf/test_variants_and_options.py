"""Goal: models, and choices of one model, beside each other. Method: planted sleeps, wrong results
and failures; counts from outside."""

import copy
import time

import pytest
from kinetoscope.hf import (
    TransformersBenchmarker,
    benchmark_model_variants,
    compare_inference_options,
)
from tiny_models import (
    assert_untouched,
    bert_config,
    gpt2_config,
    made,
    state_of,
    torch,
    transformers,
)

pytestmark = pytest.mark.torch
QUICK = {"seconds": 3.0, "rounds": 14}


def test_variants(folders, texts, config):
    benchmarker = TransformersBenchmarker(config(benchmark_different_sizes=False))
    both = [folders["bert"], folders["large"]]
    got = benchmarker.benchmark_model_variants(both, texts, seconds=10.0)
    assert list(got) == both and benchmarker.results == [got]
    first, second = got.values()
    for row, shape in ((first, bert_config()), (second, bert_config(num_hidden_layers=6))):
        assert row["load_time"] > 0 and row["avg_tokenization_time"] > 0 and row["failure"] is None
        interval = row["inference_interval"]
        assert interval["low"] <= row["median_inference_time"] <= interval["high"]
        assert row["texts_per_second"] == 8 / row["avg_inference_time"]
        words = sum(len(text.split()) for text in texts)
        assert row["tokens_per_second"] == words / row["avg_inference_time"]
        assert row["batch_sizes"] == {} and shape.num_hidden_layers in (2, 6)
    assert first["verdict"] is None and second["verdict"] == "slower"
    assert 0 < first["avg_memory_usage"] < second["avg_memory_usage"]
    assert second["speedup_low"] <= second["speedup"] <= second["speedup_high"] < 1
    model = made("BertModel", bert_config())
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    assert first["total_parameters"] == sum(p.numel() for p in model.parameters())
    assert first["model_size_mb"] == pytest.approx(size / 2**20)


def test_forms_of_variants(texts, tokenizer, bert):
    """Configurations and modules, with names of the program's own."""
    before = state_of(bert.train())
    variants = {"mine": bert, "shape": gpt2_config(n_layer=1)}
    got = benchmark_model_variants(variants, texts, tokenizer=tokenizer, **QUICK)
    assert_untouched(before, bert)
    assert list(got) == ["mine", "shape"] and got["mine"]["load_time"] is None
    assert list(got["mine"]["batch_sizes"]) == [1, 2, 4, 8]
    assert got["shape"]["verdict"] in ("faster", "slower", "no_difference", "cannot_tell")
    named = [bert_config(num_hidden_layers=1), bert_config(num_hidden_layers=1)]
    with pytest.raises(ValueError, match="one name"):
        benchmark_model_variants(named, texts)
    with pytest.raises(ValueError, match="no tokenizer"):
        benchmark_model_variants([bert], texts)
    with pytest.raises(ValueError, match="no variant"):
        benchmark_model_variants([], texts)


def test_variants_in_halves(bert, texts, tokenizer, config):
    """All forwards compute in the dtype that the switches ask for, and without dropout."""
    seen, modes = [], []
    bert.train().register_forward_pre_hook(lambda module, args: modes.append(module.training))
    bert.encoder.layer[0].attention.self.query.register_forward_hook(
        lambda module, args, output: seen.append(output.dtype)
    )
    half = config(mixed_precision_dtype="bfloat16")
    got = benchmark_model_variants({"a": bert}, texts, half, tokenizer=tokenizer, **QUICK)
    assert len(seen) > got["a"]["rounds"] >= 2 and set(seen) == {torch.bfloat16}
    assert set(modes) == {False} and bert.training


def test_variants_that_cannot_be_measured(folders, texts, tokenizer, caplog):
    """Each says why, by its name; the others are measured, against the first that can be."""
    model = made("BertModel", bert_config())
    plain = torch.nn.Linear(2, 2)  # takes no texts
    variants = {"nobody/nothing": "nobody/nothing", "plain": plain, "a": model}
    variants |= {"": "/nowhere", "b": made("BertModel", bert_config(num_hidden_layers=6))}
    got = benchmark_model_variants(variants, texts, tokenizer=tokenizer, **QUICK)
    assert list(got) == list(variants)
    assert got["nobody/nothing"]["failure"].startswith("cannot be loaded: ")
    assert "nobody/nothing" in caplog.text and "/nowhere" in got[""]["failure"]
    assert got["plain"]["failure"].startswith("cannot be run: TypeError: ")
    for name in ("nobody/nothing", "", "plain"):
        assert set(got[name]) == set(got["a"]) and got[name]["avg_inference_time"] is None
        assert got[name]["batch_sizes"] == {} and got[name]["verdict"] is None
    assert got["a"]["failure"] is None and got["a"]["verdict"] is None
    assert got["a"]["rounds"] > 1 and got["b"]["speedup"] < 1
    with pytest.raises(ValueError, match="'/nowhere' cannot be loaded: OSError"):
        benchmark_model_variants(["/nowhere"], texts)
    with pytest.raises(TypeError, match="int"):
        benchmark_model_variants([3], texts)


def test_switches_of_variants(folders, texts, config):
    one = [folders["bert"]]

    def run(**switches):
        switches = {"benchmark_different_sizes": False, **switches}
        result = benchmark_model_variants(one, texts, config(**switches), **QUICK)
        return result.get(folders["bert"], {})

    assert run(profile_model_variants=False) == {}
    assert run(profile_model_loading=False)["load_time"] is None
    assert run(profile_tokenization=False)["avg_tokenization_time"] is None
    off = run(profile_inference=False)
    assert off["avg_inference_time"] is None and off["total_parameters"] > 0
    sizes = run(benchmark_different_sizes=True)["batch_sizes"]
    assert list(sizes) == [1, 2, 4, 8] and sizes[4]["texts_per_second"] > 0


def test_batch_sizes_of_one_model(bert, texts, tokenizer, config):
    rows = TransformersBenchmarker(config()).benchmark_batch_sizes(bert, texts, tokenizer, (2, 4))
    assert list(rows) == [2, 4]
    off = TransformersBenchmarker(config(benchmark_different_sizes=False))
    assert off.benchmark_batch_sizes(bert, texts, tokenizer) == {}


def test_a_variant_that_fails(tokenizer, texts):
    good, bad = made("BertModel", bert_config()), made("BertModel", bert_config())
    calls = []

    def fail_later(module, args):
        calls.append(1)
        if len(calls) > 4:
            raise RuntimeError("planted")

    bad.register_forward_pre_hook(fail_later)
    variants = {"good": good, "bad": bad}
    from kinetoscope.hf.timed_variants import time_in_turn

    ids = torch.ones(1, 3).long()
    functions = {name: (lambda m=model: m(ids)) for name, model in variants.items()}
    here = dict.fromkeys(functions, torch.device("cpu"))
    rows, failures = time_in_turn(functions, here, 2.0, 12)
    assert list(rows) == ["good"] and "planted" in failures["bad"]

    calls.clear()
    functions = {"bad": functions["bad"], "good": functions["good"], "other": functions["good"]}
    here["other"] = here["good"]
    rows, failures = time_in_turn(functions, here, 2.0, 12)
    assert list(rows) == ["good", "other"] and list(failures) == ["bad"]
    assert rows["good"]["verdict"] is None and rows["other"]["verdict"] is not None
    assert time_in_turn({"bad": functions["bad"]}, here, 1.0, 4)[0] == {}


def test_options(llama, config):
    ids = torch.randint(5, 300, (2, 12))
    before = state_of(llama)
    got = compare_inference_options(llama, ids, compile_backend="eager", **QUICK)
    assert_untouched(before, llama)
    rows = got["variants"]
    wanted = {"as_it_is", "attention:eager", "attention:sdpa", "precision:bfloat16"}
    wanted |= {"precision:float16", "compile:default", "quantization:int8_dynamic"}
    assert wanted <= set(rows) and got["best"] in rows
    with torch.no_grad():
        whole = llama(ids).logits
        half = made("LlamaForCausalLM", llama.config).to(torch.bfloat16)(ids).logits.float()
    share = ((whole - half).abs().max() / whole.abs().max()).item()
    assert rows["precision:bfloat16"]["relative_difference"] == pytest.approx(share, rel=1e-6)
    for name in wanted - {"as_it_is"}:
        row = rows[name]
        assert row["is_right"] is True and row["reason"] is None, name
        assert row["relative_difference"] <= row["tolerance"] and row["rounds"] >= 1
    assert rows["precision:bfloat16"]["model_size_mb"] == rows["as_it_is"]["model_size_mb"] / 2
    assert rows["quantization:int8_dynamic"]["model_size_mb"] < rows["as_it_is"]["model_size_mb"]
    assert rows["attention:eager"]["max_difference"] > 0  # another kernel rounds otherwise


def test_wrong_and_missing_options(llama, config, monkeypatch):
    """What changes results is not timed, whatever it would gain."""
    ids = torch.randint(5, 300, (2, 12))
    options = {"options": ["precision"], "tolerances": {"bfloat16": 1e-9}, **QUICK}
    rows = compare_inference_options(llama, ids, **options)["variants"]
    row = rows["precision:bfloat16"]
    assert row["is_right"] is False and "differ" in row["reason"]
    assert row["avg_inference_time"] is None and row["verdict"] is None
    assert rows["precision:float16"]["avg_inference_time"] > 0

    def broken(model, **options):
        raise RuntimeError("no compiler here\nat all")

    monkeypatch.setattr(torch, "compile", broken)
    off = config(optimize_attention=False)
    choices = ["compile", "attention"]
    got = compare_inference_options(llama, ids, config=off, options=choices, **QUICK)
    assert got["variants"]["compile:default"]["reason"] == "RuntimeError: no compiler here"
    assert set(got["variants"]) == {"as_it_is", "compile:default"} and got["best"] == "as_it_is"
    with pytest.raises(ValueError, match="magic"):
        compare_inference_options(llama, ids, options=["magic"])


def test_quantisation_is_that_of_tune(llama, monkeypatch):
    """A way that is planted there is tried here; one that cannot be says why, and is not made."""
    from kinetoscope.tune import quantization

    def halve(model):
        return model.to(torch.bfloat16)

    ways = {
        "planted": quantization.Way(halve, lambda model: None, "int8", []),
        "away": quantization.Way(lambda model: 1 / 0, lambda model: "it is away", "int8", []),
    }
    monkeypatch.setattr(quantization, "WAYS", ways)
    ids = torch.randint(5, 300, (2, 12))
    options = {"options": ["quantization"], **QUICK}
    rows = compare_inference_options(llama, ids, **options)["variants"]
    assert set(rows) == {"as_it_is", "quantization:planted", "quantization:away"}
    planted = rows["quantization:planted"]
    assert planted["is_right"] is True and planted["rounds"] >= 1
    halves = copy.deepcopy(llama).to(torch.bfloat16)
    assert planted["model_size_mb"] == quantization.saved_bytes(halves) / 2**20
    assert rows["quantization:away"]["reason"] == "it is away"

    table = torch.nn.Embedding(300, 4)
    rows = compare_inference_options(table, {"input": ids}, **options)["variants"]
    assert rows["quantization:planted"]["reason"] == "it has no torch.nn.Linear to quantise"


class Wider(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **batch):
        return torch.cat([self.model(**batch)[0]] * 2)


def spoilt(model):
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    return model


def test_results_that_are_not_the_same(bert, monkeypatch):
    """Another shape, no numbers, and tolerances: a name goes before its word, and that before its
    group."""
    from kinetoscope.tune import quantization

    ways = {
        "shape": quantization.Way(Wider, lambda model: None, "int8", []),
        "numbers": quantization.Way(spoilt, lambda model: None, "int8", []),
    }
    monkeypatch.setattr(quantization, "WAYS", ways)
    ids = torch.randint(0, 300, (2, 12))
    limits = {"precision:bfloat16": 1e-9, "bfloat16": 0.5, "float16": 0.4, "precision": 0.6}
    options = {"options": ["precision", "quantization"], "tolerances": limits, **QUICK}
    rows = compare_inference_options(bert, ids, **options)["variants"]
    for word in ("shape", "numbers"):
        row = rows[f"quantization:{word}"]
        assert row["is_right"] is False and row["rounds"] is None
        assert row["reason"] == "its results are not finite, or of another shape"
        assert row["tolerance"] == 0.2 and row["relative_difference"] is None
    assert rows["precision:bfloat16"]["tolerance"] == 1e-9
    assert rows["precision:float16"]["tolerance"] == 0.4


def test_pictures_go_in_the_dtype_of_weights():
    """And the memory of a variant is its own."""
    shape = transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    shape.intermediate_size, shape.image_size, shape.patch_size = 64, 32, 8
    model, pictures = made("ViTModel", shape), {"pixel_values": torch.rand(2, 3, 32, 32)}
    rows = compare_inference_options(model, pictures, options=["precision"], **QUICK)["variants"]
    assert rows["precision:bfloat16"]["is_right"] is True
    whole = rows["as_it_is"]
    assert 0 < rows["precision:bfloat16"]["memory_used"] < whole["memory_used"]
    assert all(row["build_time"] > 0 for row in rows.values())
    sounds = {"input": torch.rand(2, 8)}
    rows = compare_inference_options(torch.nn.Linear(8, 4), sounds, options=["precision"], **QUICK)
    assert rows["variants"]["precision:bfloat16"]["is_right"] is True


def test_modes_of_compile_are_those_of_tune(bert, monkeypatch):
    from kinetoscope.tune.setting import Setting

    seen = []
    monkeypatch.setattr(Setting, "compiled", lambda self, model: seen.append(self.compile) or model)
    ids = torch.randint(5, 300, (1, 4))
    got = compare_inference_options(bert, ids, options=["compile"], **QUICK)
    assert seen == ["default"] and got["variants"]["compile:default"]["is_right"] is True


def test_the_fastest_is_found(bert, monkeypatch):
    """The model naps for as long as its weights are whole, and half of that in float16."""
    naps = {torch.float32: 0.02, torch.float16: 0.01}
    bert.register_forward_pre_hook(lambda module, args: time.sleep(naps.get(module.dtype, 0)))
    ids = torch.randint(5, 300, (1, 4))
    options = {"options": ["precision"], "seconds": 8.0, "rounds": 30}
    got = compare_inference_options(bert, ids, **options)
    assert got["best"] == "precision:bfloat16"
    assert got["variants"]["precision:float16"]["verdict"] == "faster"
    assert got["variants"][got["best"]]["verdict"] == "faster"
    assert got["variants"][got["best"]]["speedup_low"] > 1


def test_a_lower_median_alone_is_not_the_best():
    from kinetoscope.hf.inference_options import _best

    def row(verdict, median):
        return {"verdict": verdict, "median_inference_time": median}

    rows = {"as_it_is": row(None, 4.0), "a": row("faster", 3.0), "b": row("cannot_tell", 1.0)}
    assert _best(rows) == "a"
    assert _best(rows | {"c": row("faster", 2.0), "d": row("slower", 0.5)}) == "c"
    assert _best({"as_it_is": row(None, 4.0), "d": row("no_difference", 3.9)}) == "as_it_is"


class Trial:
    """In place of the engine's: each figure is another number."""

    def __init__(self, count, seconds, rounds):
        self.count, self.limits, self.added, self.compared = count, (seconds, rounds), [], []
        made_trials.append(self)

    def __iter__(self):
        return iter([0, 1, 1, 0])

    def add(self, variant, elapsed_ns):
        self.added.append((variant, elapsed_ns))

    def summary(self, variant):
        names = ("mean_ns", "std_ns", "median_ns", "low_ns", "high_ns")
        return {n: (at + 1) * 10**9 for at, n in enumerate(names)} | {"rounds": 6 + variant}

    def compare(self, first, second):
        self.compared.append((first, second))
        return {"speedup": 7, "speedup_low": 8, "speedup_high": 9, "verdict": "slower"}


made_trials = []


def test_rows_of_a_trial(monkeypatch):
    """Each figure under its name, in seconds; the first is what the second is compared with."""
    from kinetoscope.hf import timed_variants

    monkeypatch.setattr(timed_variants, "Trial", Trial)
    calls = {"a": lambda: time.sleep(0.001), "b": lambda: time.sleep(0.003)}
    here = dict.fromkeys(calls, torch.device("cpu"))
    rows, failures = timed_variants.time_in_turn(calls, here, 5.0, 7)
    trial = made_trials.pop()
    assert (trial.count, trial.limits, trial.compared) == (2, (5.0, 7), [(0, 1)])
    assert [variant for variant, _ in trial.added] == [0, 1, 1, 0] and not failures
    assert all(ns >= 10**6 * (1 + 2 * variant) for variant, ns in trial.added)
    times = {"avg_time": 1.0, "std_time": 2.0, "median_time": 3.0}
    times["interval"] = {"low": 4.0, "high": 5.0}
    compared = {"speedup": 7, "speedup_low": 8, "speedup_high": 9, "verdict": "slower"}
    assert rows["a"] == {**times, "rounds": 6, **dict.fromkeys(compared)}
    assert rows["b"] == {**times, "rounds": 7, **compared}
