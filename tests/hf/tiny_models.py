"""Tiny models from configurations, texts for them, and looks at models from outside that tests of
kinetoscope.hf share."""

import os

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import pytest

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
