"""Goal: what loading and tokenising took, and each switch about them. Method: real safetensors and
a tokenizer that learnt its words here; counts from outside."""

import glob
import time

import pytest
from kinetoscope.hf import load_model_with_profiling, profile_tokenizer_performance
from tiny_models import bert_config, torch, transformers

pytestmark = pytest.mark.torch


def test_loading(folders, bert):
    assert glob.glob(folders["bert"] + "/*.safetensors")
    began = time.perf_counter()
    got = load_model_with_profiling(folders["bert"])
    elapsed = time.perf_counter() - began
    model = got["model"]
    assert type(model).__name__ == "BertModel" and not model.training
    for name, tensor in bert.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)
    size = sum(p.numel() * p.element_size() for p in bert.parameters())
    assert got["parameter_bytes"] == size and got["model_size_mb"] == size / 2**20
    assert got["dtypes"] == {"float32": size} and got["dtype"] == "float32"
    assert 0 < got["load_time"] <= elapsed
    buffers = sum(b.numel() * b.element_size() for b in bert.buffers())
    assert got["device_bytes"] == {"cpu": size + buffers}
    assert got["device_copies"] == {"count": 0, "bytes": 0, "direction": None}
    assert got["gpu_memory"] is None or torch.cuda.is_available()


def test_switches_of_loading(folders, config):
    folder = folders["bert"]
    assert list(load_model_with_profiling(folder, config(profile_model_loading=False))) == ["model"]
    unplaced = load_model_with_profiling(folder, config(profile_device_mapping=False))
    assert unplaced["device_bytes"] is None and unplaced["load_time"] > 0
    assert load_model_with_profiling(folder)["device_map"] is None
    placed = load_model_with_profiling(folder, config(use_device_map=True))
    assert placed["device_map"] and placed["offloaded"]["disk"] == []
    half = load_model_with_profiling(folder, config(mixed_precision_dtype="bfloat16"))
    assert half["dtype"] == "bfloat16" and half["model"].dtype == torch.bfloat16
    for is_on, name in ((True, "sdpa"), (False, "eager")):
        got = load_model_with_profiling(folder, config(optimize_attention=is_on))
        assert got["attention"] == name == got["model"].config._attn_implementation


def test_what_waits_elsewhere(folders, tmp_path):
    """A layer on the disk is told; what is on the CPU waits for nothing where all else is."""
    pytest.importorskip("accelerate")
    places = {"embeddings": "cpu", "encoder.layer.0": "cpu", "encoder.layer.1": "disk"}
    options = {"device_map": {**places, "pooler": "cpu"}, "offload_folder": str(tmp_path)}
    got = load_model_with_profiling(folders["bert"], **options)
    assert got["offloaded"] == {"disk": ["encoder.layer.1"]}
    assert got["device_map"]["encoder.layer.1"] == "disk" and got["device_bytes"]["meta"] > 0
    layer = sum(p.numel() * p.element_size() for p in got["model"].encoder.layer[1].parameters())
    assert got["device_bytes"]["meta"] == layer
    with torch.no_grad():
        assert got["model"](torch.ones(1, 3).long())[0].isfinite().all()


def test_arguments_of_loading(folders, config):
    got = load_model_with_profiling(folders["gpt2"], model_class="AutoModel", dtype="float16")
    assert type(got["model"]).__name__ == "GPT2Model" and got["dtype"] == "float16"
    shape = bert_config(num_hidden_layers=1)
    made = load_model_with_profiling(shape, model_class=transformers.BertForMaskedLM)["model"]
    assert type(made).__name__ == "BertForMaskedLM" and shape.num_hidden_layers == 1
    with pytest.raises(ValueError, match="NoSuchClass"):
        load_model_with_profiling(shape, model_class="NoSuchClass")
    with pytest.raises(TypeError):
        load_model_with_profiling(42)
    with pytest.raises(OSError):
        load_model_with_profiling("/nowhere/at/all")


def test_a_model_without_that_attention(config):
    """Some families have no sdpa: then the model chooses."""

    class OwnAttention(transformers.BertModel):
        _supports_sdpa = False

    shape = bert_config(num_hidden_layers=1)
    got = load_model_with_profiling(shape, model_class=OwnAttention)
    assert got["attention"] == "eager"


def test_tokenizer(folders, tokenizer, texts):
    got = profile_tokenizer_performance(texts, model_name=folders["bert"])
    assert got["initialization"]["duration"] > 0
    assert got["vocabulary_size"] == len(tokenizer.get_vocab()) and got["is_fast"] is True
    assert got["vocabulary_bytes"] == sum(len(word) for word in tokenizer.get_vocab())
    assert list(got["batch_sizes"]) == [1, 8, 16, 32, 64, 128]
    tokens = sum(len(ids) for ids in tokenizer(texts)["input_ids"])
    longest = max(len(ids) for ids in tokenizer(texts)["input_ids"])
    for size, row in got["batch_sizes"].items():
        assert row["texts_per_second"] == len(texts) / row["duration"]
        assert row["tokens"] == tokens
        assert row["padded_tokens"] == (tokens if size == 1 else longest * len(texts))
        assert row["tokens_per_second"] == tokens / row["duration"]


def test_memory_of_a_tokenizer(tokenizer, texts):
    """A cache that grows with the first look at a text, and by nothing later."""
    cache = {}

    class Caches:
        pad_token, model_max_length = "[PAD]", 64

        def get_vocab(self):
            return tokenizer.get_vocab()

        def __call__(self, given, **options):
            for text in given:
                if text not in cache:
                    cache[text] = torch.ones(2**20)
            return tokenizer(given, **options)

    got = profile_tokenizer_performance(texts, Caches(), batch_sizes=(4,))
    held = 4 * 2**20 * len(texts)
    assert held / 2 < got["cache_memory"] < 2 * held
    assert got["batch_sizes"][4]["memory_used"] < held / 4


def test_durations_of_a_tokenizer(tokenizer, texts):
    """A pause in each call: as many as there are batches."""
    lengths = []

    class Slow:
        pad_token, model_max_length = "[PAD]", 64

        def get_vocab(self):
            return tokenizer.get_vocab()

        def __call__(self, texts, **options):
            began = time.perf_counter()
            time.sleep(0.01)
            result = tokenizer(texts, **options)
            lengths.append(time.perf_counter() - began)
            return result

    row = profile_tokenizer_performance(texts, Slow(), batch_sizes=(4,))["batch_sizes"][4]
    # All texts once before; then three passes of two batches, of which the median counts.
    assert len(lengths) == 2 + 3 * 2
    passes = sorted(sum(lengths[at : at + 2]) for at in (2, 4, 6))
    assert passes[1] <= row["duration"] == pytest.approx(passes[1], rel=0.05)


def test_switches_of_tokenizers(tokenizer, texts, config):
    off = profile_tokenizer_performance(texts, tokenizer, config=config(profile_tokenization=False))
    assert off["batch_sizes"] == {} and off["vocabulary_size"] is None
    one = config(benchmark_different_sizes=False)
    assert list(profile_tokenizer_performance(texts, tokenizer, config=one)["batch_sizes"]) == [8]
    with pytest.raises(ValueError, match="neither"):
        profile_tokenizer_performance(texts)
    with pytest.raises(ValueError, match="no text"):
        profile_tokenizer_performance([], tokenizer)
