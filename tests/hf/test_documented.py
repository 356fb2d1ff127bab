"""Goal: what docs/transformers.md shows runs, and has the keys that it names. Method: its snippets
in a folder with models of those names; its table beside a real result of each function."""

import pathlib
import re

import pytest
from kinetoscope import hf
from tiny_models import TEXTS, bert_config, gpt2_config, made, torch, transformers

pytestmark = pytest.mark.torch
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "transformers.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
ROW = re.compile(r"^\| `(\w+)\(.*?\)`(?:, `\w+\(\w+\)`)? \| (.*) \|$", re.M)
ROWS = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
QUICK = {"seconds": 1.0, "rounds": 4}


@pytest.fixture
def models(tmp_path, tokenizer):
    """The folder, with what the snippets load."""
    for name, layers in (("my-model", 2), ("small", 1), ("large", 8)):
        model = made("BertForSequenceClassification", bert_config(num_hidden_layers=layers))
        model.config.max_position_embeddings = 512
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippets(models, gpt2, tokenizer, monkeypatch, number):
    monkeypatch.chdir(models)
    names = {"model": gpt2, "texts": TEXTS, "tokenizer": tokenizer}
    shown = re.findall(r"^(hf\..*?)(?:  # (.*))?$", SNIPPETS[number], re.M)
    exec(compile(SNIPPETS[number], str(PAGE), "exec"), names)  # as a reader pastes it
    for call, comment in shown:
        value = eval(call, names)
        assert value is not None
        if comment:
            assert repr(value) == comment.replace('"', "'"), call


def results(tokenizer, labelled):
    """{function: what it gave} of those that the table names."""
    bert = made("BertModel", bert_config())
    gpt2 = made("GPT2LMHeadModel", gpt2_config())
    classifier = made("BertForSequenceClassification", bert_config())
    pipe = transformers.pipeline("text-classification", model=classifier, tokenizer=tokenizer)
    ids = torch.ones(2, 6).long()
    benchmarker = hf.TransformersBenchmarker()
    named = {"a": bert, "b": gpt2}
    return {
        "load_model_with_profiling": hf.load_model_with_profiling("my-model"),
        "profile_tokenizer_performance": hf.profile_tokenizer_performance(TEXTS, tokenizer),
        "profile_inference_performance": hf.profile_inference_performance(bert, TEXTS, tokenizer),
        "profile_pipeline": hf.profile_pipeline(pipe, TEXTS),
        "profile_fine_tuning": hf.profile_fine_tuning(classifier, labelled, labelled),
        "benchmark_model_variants": benchmarker.benchmark_model_variants(
            named, TEXTS, tokenizer=tokenizer, **QUICK
        ),
        "compare_inference_options": hf.compare_inference_options(
            bert, ids, options=["precision"], **QUICK
        ),
        "estimate_memory": hf.estimate_memory(bert, 2, 6),
    }


def keys_in(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_in(inner)


def names_in(text):
    words = " ".join(re.findall(r"`([^`]*)`", text))
    return set(re.findall(r"(?<![\w.=(])[a-z]+(?:_[a-z]+)*(?![\w(=])", words))


def test_keys_of_generation(gpt2):
    section = PAGE.read_text(encoding="utf-8").split("\n## Generation")[1].split("\n## ")[0]
    wanted = {name for name in names_in(section) if "_" in name}
    got = hf.profile_generation(gpt2, torch.ones(2, 6).long(), max_new_tokens=4)
    assert len(wanted) > 8 and wanted <= set(keys_in(got))


def test_keys_of_the_table(models, tokenizer, labelled, monkeypatch):
    monkeypatch.chdir(models)
    for name, result in results(tokenizer, labelled).items():
        wanted = names_in(ROWS[name])
        assert not wanted - set(keys_in(result)) - {"Trainer"}, name
    assert set(ROWS) >= {name for name in hf.PUBLIC if not name[0].isupper()}
