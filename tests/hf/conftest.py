"""Fixtures of tests of kinetoscope.hf: tiny models made from configurations, words that a tokenizer
learns here, folders with real safetensors. Nothing is fetched."""

import pathlib
import sys

import pytest
from tiny_models import TEXTS, bert_config, gpt2_config, llama_config, made, torch, transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(autouse=True)
def one_thread():
    """Two cores that others use too: more threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def ks():
    import kinetoscope

    return kinetoscope


@pytest.fixture
def config(ks):
    """Makes a ProfilingConfig that writes nothing."""

    def make(**switches):
        return ks.create_profiling_config(save_profiles=False, **switches)

    return make


@pytest.fixture(scope="session")
def texts():
    return TEXTS


@pytest.fixture(scope="session")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")
    }
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=list(special.values()))
    words.train_from_iterator(TEXTS, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
        **special,
    )


@pytest.fixture
def bert():
    return made("BertModel", bert_config())


@pytest.fixture
def classifier():
    return made("BertForSequenceClassification", bert_config())


@pytest.fixture
def gpt2():
    return made("GPT2LMHeadModel", gpt2_config())


@pytest.fixture
def llama():
    return made("LlamaForCausalLM", llama_config())


@pytest.fixture(scope="session")
def folders(tmp_path_factory, tokenizer):
    """{name: folder} of saved models with their tokenizer."""
    top = tmp_path_factory.mktemp("models")
    kinds = {
        "bert": ("BertModel", bert_config()),
        "large": ("BertModel", bert_config(num_hidden_layers=6, hidden_size=64)),
        "classifier": ("BertForSequenceClassification", bert_config()),
        "gpt2": ("GPT2LMHeadModel", gpt2_config()),
    }
    found = {}
    for name, (kind, shape) in kinds.items():
        found[name] = str(top / name)
        made(kind, shape).save_pretrained(found[name])
        tokenizer.save_pretrained(found[name])
    return found


@pytest.fixture
def labelled(tokenizer):
    """A loader of batches of four texts with labels."""
    words = tokenizer(TEXTS, padding=True, return_tensors="pt")
    rows = [
        {**{k: v[i] for k, v in words.items()}, "labels": torch.tensor(i % 2)}
        for i in range(len(TEXTS))
    ]
    return torch.utils.data.DataLoader(rows, batch_size=4)
