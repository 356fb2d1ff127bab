"""Goal: each part of examples/seo_engine does what it says, and a training learns.

Method: in one process, with torch and transformers, each part against another way to the same
result: plain torch, the collator of transformers, formulas, naive twins, an exact binomial test.
The program around the engine is test_train_seo.py.
"""

import dataclasses
import math
import os
import pathlib
import random
import re
import sys

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

from seo_engine.config import SEOConfig  # noqa: E402
from seo_engine.early_stopping import EarlyStopping  # noqa: E402
from seo_engine.engine import AdvancedLLMSEOEngine  # noqa: E402
from seo_engine.page_corpus import FAULTS, make_page, make_pages  # noqa: E402
from seo_engine.page_dataset import LengthBatches  # noqa: E402
from seo_engine.page_text import text_of_page  # noqa: E402
from seo_engine.profiling_switches import ProfilingSwitches  # noqa: E402
from seo_engine.seo_pipeline import SEOPipeline  # noqa: E402

pytestmark = pytest.mark.torch

TINY = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 48, "batch_size": 8}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_engine(**settings):
    return AdvancedLLMSEOEngine(SEOConfig(device="cpu", **{**TINY, **settings}))


def test_switches_are_those_of_the_package(monkeypatch):
    """The engine also runs where kinetoscope is missing, so that it says them once more."""
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    from kinetoscope.config import ProfilingConfig

    def of(switches):
        return {name: getattr(switches, name) for name in names}

    names = {field.name for field in dataclasses.fields(ProfilingConfig)}
    names |= {field.name for field in dataclasses.fields(ProfilingSwitches)}
    assert len(names) > 50 and of(ProfilingSwitches()) == of(ProfilingConfig())
    config = SEOConfig(with_flops=True, use_torch_compile=True)
    assert config.use_compile and ProfilingConfig(use_compile=True).use_torch_compile


def loaders(engine, count=40):
    pages = make_pages(count, 7)
    train = engine.create_training_dataset(pages.texts, pages.labels, "train")
    held_out = engine.create_training_dataset(pages.texts[:16], pages.labels[:16], "held out")
    return engine.make_loader(train, is_shuffled=True), engine.make_loader(held_out)


def losses(history):
    return [loss for epoch in history for loss in epoch["losses"]]


def same_weights(one, other):
    left, right = one.seo_model.state_dict(), other.seo_model.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


# ---------------------------------------------------------------- pages and tokens


def test_pages_follow_from_the_seed_and_are_balanced():
    pages = make_pages(200, 3)
    assert pages == make_pages(200, 3) != make_pages(200, 4)
    assert 80 <= sum(pages.labels) <= 120
    assert len(set(pages.texts)) == 200


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_can_be_seen_in_the_text(fault):
    seen = {
        "title": r"title : (Home|Untitled|Welcome|New|Index)",
        "description": r"title : (.*?) description : \1 ",
        "stuffing": r"\b([a-z]+ [a-z]+(?: [a-z]+)?) \1\.",
        "links": r"link : (click here|read more|this link|here)",
        "headings": r"^(?!.*heading :)",
    }
    draw = random.Random(5)
    with_it = [text_of_page(make_page(draw, frozenset({fault}))) for _ in range(30)]
    without = [text_of_page(make_page(draw, frozenset())) for _ in range(30)]
    if fault == "drift":  # words of several topics
        assert sum(map(topics_in, with_it)) > 1.5 * sum(map(topics_in, without))
        return
    counts = [
        sum(bool(re.search(seen[fault], text)) for text in texts) for texts in (with_it, without)
    ]
    assert counts[0] >= 20 and counts[1] == 0


def topics_in(text):
    from seo_engine.page_corpus import TOPICS

    return sum(any(word in text.split() for word in words.split()) for words in TOPICS.values())


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("plain text &amp; more", "plain text & more"),
        ("<title>A\n b</title><p>c</p>", "title : A b text : c"),
        ("<nav><a href=x>menu</a></nav><a>go</a>", "link : go"),
        ('<meta name="description" content="d"><meta name="o" content="e">', "description : d"),
        ("<script>x < y</script><h2>z</h2></script></nav>q", "heading : z q"),
        ("<p>cut <b>of", "text : cut of"),
        ("", ""),
    ],
)
def test_text_of_page(page, text):
    assert text_of_page(page) == text


def test_tokens_are_words_between_two_ends_and_end_at_the_limit():
    tokenizer = make_engine().tokenizer
    encoded = tokenizer.tokenize_text("<p>Check the brake & the chain.</p>")
    ids = encoded["input_ids"]
    assert ids.shape == encoded["attention_mask"].shape == (1, ids.shape[1])
    assert tokenizer.tokenizer.decode(ids[0]) == "[CLS] text : check the brake & the chain . [SEP]"
    assert tokenizer.tokenize_text("brake " * 100)["input_ids"].shape == (1, TINY["max_length"])


def test_the_same_pages_give_the_same_tokenizer():
    vocabularies = [make_engine(vocab_size=300).tokenizer.tokenizer.get_vocab() for _ in range(4)]
    assert all(vocabulary == vocabularies[0] for vocabulary in vocabularies)
    assert len(vocabularies[0]) == 300


def test_batches_are_those_of_the_collator_of_transformers():
    engine = make_engine()
    loader, _ = loaders(engine)
    collate = transformers.DataCollatorWithPadding(engine.tokenizer.tokenizer)
    dataset = loader.dataset
    for indices, batch in zip(loader.batch_sampler, loader, strict=True):
        rows = [{"input_ids": dataset[i][0], "labels": dataset[i][1]} for i in indices]
        for row in rows:
            row["attention_mask"] = torch.ones_like(row["input_ids"])
        expected = collate(rows)
        assert all(torch.equal(batch[name], expected[name]) for name in batch)


def test_batches_hold_every_page_once_in_an_order_of_each_epoch():
    draw = random.Random(1)
    lengths = [draw.randint(5, 90) for _ in range(203)]
    batches = LengthBatches(lengths, 8, seed=2)
    first, again = list(batches), list(batches)
    batches.set_epoch(1)
    second = list(batches)
    assert first == again != second and len(batches) == len(first) == 26
    for order in (first, second):
        assert sorted(index for batch in order for index in batch) == list(range(203))
    as_they_come = [range(at, min(at + 8, 203)) for at in range(0, 203, 8)]
    sizes = [
        sum(max(lengths[i] for i in batch) * len(batch) for batch in order)
        for order in (first, as_they_come)
    ]
    assert sizes[0] - sum(lengths) < 0.5 * (sizes[1] - sum(lengths))


def test_inline_tokenizing_trains_on_the_same_batches():
    usual, inline = make_engine(num_epochs=1), make_engine(num_epochs=1, tokenize_inline=True)
    assert losses(usual.train(*loaders(usual))) == losses(inline.train(*loaders(inline)))
    assert same_weights(usual, inline)


# ---------------------------------------------------------------- training


def test_learns():
    """The held-out pages are judged better than by chance, with a probability of error of 1e-6."""
    engine = make_engine(num_epochs=6, **{key: getattr(SEOConfig, key) for key in TINY})
    pages, held_out = make_pages(384, 0), make_pages(128, 1_000_000)
    assert not set(pages.texts) & set(held_out.texts)
    data = engine.create_training_dataset(pages.texts, pages.labels)
    held_out = engine.create_training_dataset(held_out.texts, held_out.labels)
    history = engine.train(engine.make_loader(data, is_shuffled=True), engine.make_loader(held_out))
    assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]
    judged = engine.evaluate_model(engine.make_loader(held_out))
    right, n = round(judged["accuracy"] * judged["pages"]), judged["pages"]
    chance = judged["chance"]
    assert chance == max(sum(held_out.labels), n - sum(held_out.labels)) / n
    by_luck = [math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(right, n + 1)]
    assert sum(by_luck) < 1e-6
    scores = [
        engine.analyze_seo_score(make_page(random.Random(1), frozenset(f)))["score"]
        for f in ((), FAULTS[:4])
    ]
    assert 0 <= scores[1] < scores[0] <= 100


def test_losses_follow_from_the_seed_alone():
    histories = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(histories))  # what the caller draws does not matter
        engine = make_engine(seed=seed, num_epochs=2)
        state = torch.get_rng_state()
        histories.append(losses(engine.train(*loaders(engine))))
        assert torch.equal(torch.get_rng_state(), state)  # nor is it changed
    assert histories[0] == histories[1] != histories[2]


def test_a_step_is_that_of_plain_torch():
    engine, other = (make_engine(warmup_share=0.0) for _ in range(2))
    loader, _ = loaders(engine)
    engine.seo_model.config.hidden_dropout_prob = 0.0
    batch = next(iter(loader))
    for each in (engine, other):
        for module in each.seo_model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    engine._plan(loader)
    loss = engine._train_step(batch)
    model, config = other.seo_model.train(), other.config
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    expected = torch.nn.functional.cross_entropy(logits, batch["labels"])
    expected.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
    for parameter in model.parameters():
        parameter.grad *= min(1.0, config.gradient_norm_max / (norm + 1e-6))
    torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    ).step()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(engine.seo_model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=2e-5)


def test_learning_rate_rises_and_falls_as_a_cosine():
    engine = make_engine(num_epochs=4, warmup_share=0.25, learning_rate=0.01)
    loader, _ = loaders(engine)
    rates, steps = [], 4 * len(loader)
    engine.profiling.end_step = lambda: rates.append(engine.optimization.learning_rate)
    engine.early_stopping = None
    engine.train(loader)
    warm = steps // 4
    for done, rate in enumerate(rates, start=1):
        part = (
            done / warm
            if done < warm
            else (0.5 + 0.5 * math.cos(math.pi * (done - warm) / (steps - warm)))
        )
        assert rate == pytest.approx(0.01 * part, abs=1e-9)


def test_early_stopping_against_a_naive_twin():
    draw = random.Random(3)
    for _ in range(200):
        patience, delta = draw.randint(1, 4), draw.choice([0.0, 0.1])
        values = [draw.choice([draw.random(), float("nan")]) for _ in range(12)]
        stopping = EarlyStopping(patience, delta)
        for count, value in enumerate(values, start=1):
            best, since = float("inf"), 0
            for earlier in values[:count]:
                is_better = best - earlier > delta
                best, since = (earlier, 0) if is_better else (best, since + 1)
            assert stopping.update(value) == (since >= patience)
            if stopping.should_stop:
                break


def test_training_ends_early_and_with_the_epochs():
    for delta, epochs in ((100.0, 3), (-100.0, 4)):  # never better than before; always
        engine = make_engine(num_epochs=4, early_stopping_patience=2, early_stopping_delta=delta)
        history = engine.train(*loaders(engine))
        assert [epoch["should_stop"] for epoch in history] == [False] * (epochs - 1) + [epochs == 3]
        assert engine.train(*loaders(engine)) == []  # it has ended


def test_resumed_training_is_the_one_that_was_not_stopped(tmp_path):
    settings = {"num_epochs": 4, "early_stopping_patience": 4, "early_stopping_delta": 0.1}
    whole = make_engine(**settings)
    expected = losses(whole.train(*loaders(whole)))
    first = make_engine(**settings, checkpoint_dir=str(tmp_path))
    first.train_epoch(*loaders(first), first.early_stopping)
    first.train_epoch(*loaders(first), first.early_stopping)
    first.save_checkpoint(str(tmp_path / "half.pt"))
    resumed = make_engine(**settings, checkpoint_dir=str(tmp_path))
    torch.manual_seed(99)
    resumed.resume(str(tmp_path / "half.pt"))
    found = losses(resumed.train(*loaders(resumed)))
    assert len(expected) == 4 * 5 and found == expected[2 * 5 :]
    assert same_weights(whole, resumed)
    assert whole.early_stopping.state_dict() == resumed.early_stopping.state_dict()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["epoch003.pt", "epoch004.pt", "half.pt"]


def test_checkpoint_is_whole_or_not_there(tmp_path, monkeypatch):
    engine = make_engine()
    loader, _ = loaders(engine)
    engine.train_epoch(loader)
    engine.save_checkpoint(str(tmp_path / "kept.pt"))
    before = (tmp_path / "kept.pt").read_bytes()

    def break_off(state, path):
        pathlib.Path(path).write_bytes(b"half")
        raise OSError("no space")

    monkeypatch.setattr(torch, "save", break_off)
    with pytest.raises(OSError, match="no space"):
        engine.save_checkpoint(str(tmp_path / "kept.pt"))
    assert [p.name for p in tmp_path.iterdir()] == ["kept.pt"]
    assert (tmp_path / "kept.pt").read_bytes() == before


def test_mixed_precision_computes_in_bfloat16_and_keeps_parameters():
    full, mixed = (
        make_engine(num_epochs=2),
        make_engine(num_epochs=2, mixed_precision_dtype="bfloat16"),
    )
    seen = []
    mixed.seo_model.classifier.register_forward_hook(lambda m, i, out: seen.append(out.dtype))
    exact, rounded = losses(full.train(*loaders(full))), losses(mixed.train(*loaders(mixed)))
    assert set(seen) == {torch.bfloat16}
    assert {p.dtype for p in mixed.seo_model.parameters()} == {torch.float32}
    assert exact != rounded and exact == pytest.approx(rounded, rel=0.05)
    off = make_engine(use_mixed_precision=False, mixed_precision_dtype="bfloat16")
    assert off.optimization.dtype is None and full.optimization.dtype is None


@pytest.mark.parametrize(
    "settings",
    [
        {"optimize_attention": False},
        {"gradient_checkpointing": True},
        {"num_workers": 1},
        {"use_channels_last": True},
    ],
)
def test_how_the_model_runs_changes_no_loss(settings):
    usual, other = make_engine(num_epochs=1), make_engine(num_epochs=1, **settings)
    expected = losses(usual.train(*loaders(usual)))
    assert losses(other.train(*loaders(other))) == pytest.approx(expected, rel=1e-4)


# ---------------------------------------------------------------- judging and keeping


def test_evaluation_by_hand():
    engine = make_engine()
    _, loader = loaders(engine)
    judged = engine.evaluate_model(loader)
    good = [engine.analyze_seo_score(page)["score"] / 100 for page in make_pages(40, 7).texts[:16]]
    labels = loader.dataset.labels
    expected = -sum(math.log(p if y else 1 - p) for p, y in zip(good, labels, strict=True)) / 16
    assert judged["loss"] == pytest.approx(expected, rel=1e-4)
    right = sum((p > 0.5) == y for p, y in zip(good, labels, strict=True))
    assert (judged["accuracy"], judged["pages"]) == (pytest.approx(right / 16), 16)


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_saved_engine_gives_the_same_scores(tmp_path, name):
    engine = make_engine(model_name=name, num_epochs=1)
    engine.train(*loaders(engine))
    engine.save(str(tmp_path))
    again = make_engine(model_name=str(tmp_path))
    pipeline = SEOPipeline(str(tmp_path))
    for page in make_pages(6, 11).texts:
        score = engine.analyze_seo_score(page)
        # Weights from a file lie elsewhere in memory, by which sums are taken in another order.
        found = again.analyze_seo_score(page)
        assert found == score | {"score": pytest.approx(score["score"], rel=1e-5)}
        answer = pipeline.analyze_text(page)
        assert answer["label"] == score["label"]
        good = answer["score"] if answer["label"] == "good" else 1 - answer["score"]
        assert good * 100 == pytest.approx(score["score"], abs=1e-3)


def test_saved_engines_beside_each_other(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    folders = [str(tmp_path / name) for name in ("small", "large")]
    for folder, layers in zip(folders, (1, 2), strict=True):
        make_engine(num_layers=layers).save(folder)
    pages = make_pages(8, 3).texts
    engine = make_engine(benchmark_different_sizes=False, save_profiles=False)
    rows = engine.compare_variants(folders, pages)
    assert list(rows) == folders
    parameters = [rows[folder]["total_parameters"] for folder in folders]
    assert parameters[0] < parameters[1]
    assert all(rows[folder]["avg_inference_time"] > 0 for folder in folders)
    assert make_engine(profile_model_variants=False).compare_variants(folders, pages) == {}


def test_memory_of_a_step_that_was_not_made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    small, large = (make_engine(batch_size=size).estimate_memory() for size in (4, 8))
    weights = small["parts"]["parameters"]
    assert weights == large["parts"]["parameters"] > 0
    assert large["parts"]["activations"] > 1.5 * small["parts"]["activations"]


def test_debug_switches_log_what_happened(caplog):
    names = [name for name in vars(SEOConfig()) if name.startswith("debug_")]
    caplog.set_level("DEBUG", "kinetoscope.debug")
    quiet = make_engine(num_epochs=1)
    expected = losses(quiet.train(*loaders(quiet)))
    assert not caplog.records
    engine = make_engine(num_epochs=1, **dict.fromkeys(names, True))
    assert losses(engine.train(*loaders(engine))) == expected
    for name in names:
        found = [r for r in caplog.records if r.args[0] == name.removeprefix("debug_")]
        once = name in ("debug_validation", "debug_early_stopping")
        assert len(found) == (1 if once else len(expected)), name
    forward = [r.facts["loss"] for r in caplog.records if r.args[0] == "forward_pass"]
    assert forward == expected


def test_kinetoscope_debugs_the_engine(caplog, monkeypatch):
    """A weight that is NaN is named; losses until then are those without debugging."""
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    quiet = make_engine(num_epochs=1)
    expected = losses(quiet.train(*loaders(quiet)))
    engine = make_engine(num_epochs=1)
    caplog.set_level("DEBUG", "kinetoscope.debug")
    engine.enable_debugging(["gradient_norms", "debug_early_stopping"])
    try:
        assert losses(engine.train(*loaders(engine))) == expected
        status = engine.get_debugging_status()
        assert status["debug_gradient_norms"]["cost_us_per_step"] > 0
        assert not [r for r in caplog.records if r.levelname == "WARNING"]
        name, weight = list(engine.seo_model.named_parameters())[-2]
        with torch.no_grad():
            weight[0, 0] = float("nan")
        engine.train_epoch(loaders(engine)[0])
    finally:
        engine.disable_debugging()
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert record.facts["parameter"] == name and record.facts["nan"] == 1
    assert not any(s["enabled"] for s in engine.get_debugging_status().values())


def test_wrong_use_is_told():
    engine = make_engine()
    with pytest.raises(ValueError, match="3 pages, but 2 labels"):
        engine.create_training_dataset(["a", "b", "c"], [0, 1])
    empty = engine.make_loader(engine.create_training_dataset([], [], "none"))
    with pytest.raises(ValueError, match="empty"):
        engine.evaluate_model(empty)
    with pytest.raises(ValueError, match="empty"):
        engine.train_epoch(empty)
    with pytest.raises(ValueError, match="berta"):
        make_engine(model_name="berta")
    with pytest.raises(ValueError, match="patience"):
        EarlyStopping(0)
    with pytest.raises(OSError):
        engine.resume("/nowhere/epoch1.pt")
