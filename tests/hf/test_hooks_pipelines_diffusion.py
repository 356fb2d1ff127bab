"""Goal: parts of a transformer, of a pipeline and of a diffusion pipeline apart. Method: planted
sleeps in one part; results and hooks with and without."""

import statistics
import time

import pytest
from kinetoscope.hf import (
    TransformersMemoryProfiler,
    TransformersProfilingHooks,
    profile_pipeline,
)
from tiny_models import assert_untouched, hooks_on, state_of, torch, transformers

pytestmark = pytest.mark.torch
NAP = 0.01


def test_parts_of_a_model(gpt2, llama, classifier):
    wanted = {
        "gpt2": {"model", "block", "embeddings", "attention", "feed_forward", "norm", "head"},
        "llama": {"model", "block", "embeddings", "attention", "feed_forward", "norm", "head"},
        "bert": {"model", "block", "embeddings", "attention", "head"},
    }
    ids = torch.arange(12).view(2, 6)
    for name, model in (("gpt2", gpt2), ("llama", llama), ("bert", classifier)):
        bare, plain = hooks_on(model), model(ids).logits
        with TransformersProfilingHooks().register_model_hooks(model) as hooks:
            watched = model(ids).logits
            watched.sum().backward()
            summary = hooks.get_summary()
        assert torch.equal(plain, watched) and hooks_on(model) == bare and not hooks.hooks
        assert wanted[name] <= set(summary), (name, set(summary))
        assert summary["block"]["modules"] == 2 and summary["model"]["modules"] == 1
        assert summary["attention"]["modules"] == 2
        for row in summary.values():
            assert 0 < row["forward"] <= summary["model"]["forward"]
            assert row["forward_share"] == row["forward"] / summary["model"]["forward"]
        assert 0 < summary["attention"]["backward"] < summary["model"]["backward"]


def test_a_slow_part_is_found(llama):
    """The quickest of some calls counts: other work of the machine only makes them longer."""
    llama.model.layers[1].mlp.register_forward_pre_hook(lambda module, args: time.sleep(NAP))
    hooks = TransformersProfilingHooks().register_model_hooks(llama)
    for _ in range(8):
        llama(torch.arange(6).view(1, 6))
    hooks.cleanup()
    quickest = {name: ways["forward"]["min"] for name, ways in hooks.get_times().items()}
    parts = {name for name in quickest if "mlp" in name or "attn" in name}
    assert {name for name in parts if quickest[name] >= NAP} == {"model.layers.1.mlp"}
    assert hooks.get_summary()["feed_forward"]["forward"] >= 8 * NAP


def test_switch_of_forward_hooks(ks, gpt2, config):
    profiler = ks.CodeProfiler(config(profile_model_forward=False))
    hooks = TransformersProfilingHooks(profiler).register_model_hooks(gpt2)
    gpt2(torch.arange(6).view(1, 6)).logits.sum().backward()
    hooks.cleanup()
    assert all(set(ways) == {"backward"} for ways in hooks.get_times().values())
    with pytest.raises(TypeError):
        hooks.register_model_hooks(42)
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with TransformersProfilingHooks().register_model_hooks(plain) as hooks:
        plain(torch.ones(1, 2))
    assert "0" in hooks.get_times()


def test_memory_snapshots(bert, config):
    profiler = TransformersMemoryProfiler(config())
    assert profiler.analyze_memory_growth() == {}
    for tag in ("a", "b", "a", "b"):
        snapshot = profiler.snapshot_model_memory(bert, tag)
    assert snapshot["model_parameters"] == sum(p.numel() for p in bert.parameters())
    assert snapshot["model_buffers"] == sum(b.numel() for b in bert.buffers())
    assert snapshot["gradient_bytes"] == 0 and snapshot["cpu_memory"] > 10**7
    assert list(profiler.analyze_memory_growth()) == ["a_to_b", "b_to_a", "a_to_b_2"]
    ballast = torch.ones(32 * 2**20 // 4)
    bert.pooler.dense.weight.grad = torch.ones_like(bert.pooler.dense.weight)
    grown = profiler.snapshot_model_memory(bert, "c")
    row = profiler.analyze_memory_growth()["b_to_c"]
    assert 30e6 < row["cpu_memory_growth"] < 60e6 and len(ballast) > 0
    assert grown["gradient_bytes"] == 32 * 32 * 4
    # With figures of a GPU: 6 MB in 3 seconds, and nothing said about no time.
    first, second = profiler.memory_snapshots[:2]
    first["gpu_memory_allocated"], second["gpu_memory_allocated"] = 10**6, 7 * 10**6
    second["timestamp"] = first["timestamp"] + 3
    row = profiler.analyze_memory_growth()["a_to_b"]
    assert row["gpu_memory_growth"] == 6 * 10**6
    assert row["memory_growth_rate"] == pytest.approx(2 * 10**6)
    second["timestamp"] = first["timestamp"]
    assert profiler.analyze_memory_growth()["a_to_b"]["memory_growth_rate"] is None


@pytest.fixture
def pipe(classifier, tokenizer):
    return transformers.pipeline("text-classification", model=classifier, tokenizer=tokenizer)


def test_pipeline(pipe, texts):
    plain = pipe(texts)
    before = state_of(pipe.model)
    handle = pipe.model.register_forward_pre_hook(lambda module, args: time.sleep(NAP))
    got = profile_pipeline(pipe, texts, runs=2)
    handle.remove()
    assert_untouched(before, pipe.model)
    assert got["outputs"] == plain and got["inputs"] == len(texts)
    stages = got["stages"]
    assert list(stages) == ["preprocess", "forward", "postprocess"]
    assert all(stage["calls"] == len(texts) for stage in stages.values())
    assert stages["forward"]["time"] >= NAP * len(texts) > stages["postprocess"]["time"]
    assert got["inputs_per_second"] == len(texts) / got["total_time"]
    assert 0 < got["other_time"] < got["total_time"] and got["load_time"] is None
    assert not {"preprocess", "forward", "postprocess"} & set(vars(pipe))
    batched = profile_pipeline(pipe, texts, runs=1, batch_size=4)
    assert batched["stages"]["forward"]["calls"] == 2
    rest = batched["total_time"] - sum(stage["time"] for stage in batched["stages"].values())
    assert batched["other_time"] == pytest.approx(rest, rel=1e-6)
    for stage in batched["stages"].values():
        assert stage["share"] == stage["time"] / batched["total_time"]
    many = profile_pipeline(pipe, texts, runs=4)
    assert len(many["total_times"]) == 4
    assert many["total_time"] == pytest.approx(statistics.median(many["total_times"]))


def test_memory_of_a_pipeline(pipe, texts):
    """By how much the process grew: what its outputs are made of stays."""
    kept, postprocess = [], pipe.postprocess

    def greedy(*args, **kwargs):
        kept.append(torch.ones(2**20))
        return postprocess(*args, **kwargs)

    pipe.postprocess = greedy
    got = profile_pipeline(pipe, texts, runs=2)
    held = sum(tensor.numel() * 4 for tensor in kept)
    assert held / 2 < got["memory_used"] < 2 * held and len(kept) == 3 * len(texts)


def test_inputs_that_come_once(pipe, texts):
    """No call before may eat them, and each call has them all."""
    plain, seen = pipe(texts), []

    def come():
        for text in texts:
            seen.append(text)
            yield text

    calls = []
    forward = pipe.forward
    pipe.forward = lambda *args, **kwargs: calls.append(1) or forward(*args, **kwargs)
    got = profile_pipeline(pipe, come(), runs=2)
    assert got["outputs"] == plain and seen == texts
    assert got["inputs"] == got["stages"]["forward"]["calls"] == len(texts)
    assert len(calls) == 3 * len(texts)  # and one call is not counted
    assert got["inputs_per_second"] == len(texts) / got["total_time"]


def test_inputs_of_a_data_set(pipe, texts):
    """A pipeline works on them as its results are asked for, also in the call before."""

    class Texts(torch.utils.data.Dataset):
        asked = 0

        def __len__(self):
            return len(texts)

        def __getitem__(self, at):
            self.asked += 1
            return texts[at]

    given = Texts()
    got = profile_pipeline(pipe, given, runs=2)
    assert got["outputs"] == pipe(texts) and got["inputs"] == len(texts)
    assert given.asked == 3 * len(texts)
    stages = got["stages"].values()
    assert sum(stage["time"] for stage in stages) <= got["total_time"]


def test_pipeline_by_its_task_and_switch(folders, texts, config):
    off = config(profile_pipeline_operations=False)
    got = profile_pipeline("text-classification", texts[0], off, model=folders["classifier"])
    assert got["load_time"] > 0 and got["inputs"] == 1
    assert got["stages"] == {} and got["other_time"] is None and got["total_time"] > 0


def test_a_pipeline_that_fails_is_as_before(pipe):
    with pytest.raises(ValueError, match="text"):
        profile_pipeline(pipe, 42)
    assert not {"preprocess", "forward", "postprocess"} & set(vars(pipe))


@pytest.fixture
def painter(tokenizer):
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(1)
    clip = transformers.CLIPTextConfig(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=1,
    )
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    vae = diffusers.AutoencoderKL(block_out_channels=(8,), latent_channels=4, norm_num_groups=4)
    pipeline = diffusers.StableDiffusionPipeline(
        vae=vae,
        text_encoder=transformers.CLIPTextModel(clip),
        tokenizer=tokenizer,
        unet=unet,
        scheduler=diffusers.DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def test_diffusion(painter, config):
    from kinetoscope.hf import profile_diffusion_pipeline

    def paint():
        generator = torch.Generator().manual_seed(4)
        return painter("rain", num_inference_steps=3, output_type="np", generator=generator).images

    wanted, states = paint(), [state_of(m) for m in (painter.unet, painter.vae)]
    naps = [
        painter.unet.register_forward_pre_hook(lambda module, args: time.sleep(NAP)),
        painter.text_encoder.register_forward_pre_hook(lambda module, args: time.sleep(NAP)),
    ]
    generator = torch.Generator().manual_seed(4)
    options = {"num_inference_steps": 3, "output_type": "np", "generator": generator}
    got = profile_diffusion_pipeline(painter, "rain", **options)
    for nap in naps:
        nap.remove()
    for before, module in zip(states, (painter.unet, painter.vae), strict=True):
        assert_untouched(before, module)
    assert {"forward", "decode"}.isdisjoint(vars(painter.unet) | vars(painter.vae))
    assert "step" not in vars(painter.scheduler)
    assert (paint() == wanted).all()

    assert got["steps"] == len(got["step_times"]) == 3
    # The first one, too: a step begins before the hooks of its denoiser.
    assert all(length >= NAP for length in got["step_times"])
    assert sum(got["step_times"]) <= got["total_time"]
    # Sleeps are outside of forward: they belong to the step, and to nothing else.
    assert got["denoiser"]["calls"] == 3 and got["vae_decode"]["calls"] == 1
    assert got["text_encoder"]["calls"] == 2  # with and without the prompt
    parts = [got[name]["time"] for name in ("text_encoder", "denoiser", "vae_decode", "scheduler")]
    assert sum(parts) + got["other_time"] == pytest.approx(got["total_time"], rel=1e-6)
    assert got["peak_memory"] > 0 and set(got["component_bytes"]) >= {"unet", "vae"}

    off = config(profile_inference=False)
    nothing = profile_diffusion_pipeline(painter, "rain", config=off)
    assert nothing["total_time"] is None and nothing["component_bytes"] == got["component_bytes"]
