"""What tests of kinetoscope.hf share: tiny models made from configurations, words that a tokenizer
learns here, folders with real safetensors. Nothing is fetched."""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import pathlib  # noqa: E402
import sys  # noqa: E402

import pytest  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()

TEXTS = [
    "a grey heron waits beside the weir",
    "the baker sells rye bread before dawn",
    "our tram was late again",
    "she repairs clocks in a narrow shop",
    "rain drums on the tin roof",
    "two boats drift past the mill",
    "no one answered the bell",
    "the lamp over the stairs is broken",
]


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


def bert_config(**options):
    shape = dict(vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=2)
    return transformers.BertConfig(**{**shape, "intermediate_size": 64, **options})


def gpt2_config(**options):
    shape = dict(vocab_size=300, n_positions=256, n_embd=32, n_layer=2, n_head=2)
    ends = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)
    return transformers.GPT2Config(**{**shape, **ends, **options})


def llama_config(**options):
    shape = dict(vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
    more = dict(num_key_value_heads=2, intermediate_size=96, max_position_embeddings=256)
    ends = dict(bos_token_id=0, eos_token_id=0, pad_token_id=0)
    return transformers.LlamaConfig(**{**shape, **more, **ends, **options})


def made(kind, shape):
    torch.manual_seed(3)
    return getattr(transformers, kind)(shape).eval()


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


def state_of(model):
    """All of a model that must be as it was."""
    tensors = {k: v.clone() for k, v in model.state_dict().items()}
    grads = {k: None if p.grad is None else p.grad.clone() for k, p in model.named_parameters()}
    modes = [m.training for m in model.modules()]
    return tensors, grads, modes, hooks_on(model), torch.get_rng_state()


def assert_untouched(before, model):
    tensors, grads, modes, hooks, random = state_of(model)
    assert all(torch.equal(before[0][k], v) for k, v in tensors.items())
    for name, grad in grads.items():
        was = before[1][name]
        assert (grad is None) == (was is None) and (was is None or torch.equal(grad, was))
    assert (modes, hooks) == before[2:4]
    assert torch.equal(random, before[4])


def hooks_on(model):
    tables = [
        table
        for module in model.modules()
        for name, table in vars(module).items()
        if name.endswith("_hooks") and isinstance(table, dict)
    ]
    return sum(map(len, tables))


def peak_of_profiler(function):
    """Bytes above what was there, as torch.profiler saw its allocator: what we do not use."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        function()
    events = recorded.profiler.kineto_results.events()
    changes = [
        (event.start_ns(), number, event.nbytes())
        for number, event in enumerate(events)
        if event.name() == "[memory]"
    ]
    now = peak = 0
    for _, _, change in sorted(changes):
        now += change
        peak = max(peak, now)
    return peak
