#!/usr/bin/env python3
"""Holds what kinetoscope.hf says on a GPU against the allocator, CUDA events and a clock outside.

    hf_gpu.py OUT [--device cpu] [--only estimate|generation|inference|training|options]

estimate: estimate_memory against torch.cuda.max_memory_allocated of a real training step, each in a
process of its own. generation: tokens a second, time to the first token, prefill and decode, and
the KV cache. inference, training: times and memory of profile_inference_performance and
profile_fine_tuning. options: what compare_inference_options says, which is shown and not judged.

OUT receives hf_gpu.txt. The last line is `N passed, N failed`; the exit status is 0 when none
failed. With --device cpu the script is tried on tiny models, and memory is not judged.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
import transformers  # noqa: E402
from kinetoscope import hf  # noqa: E402

# name, options of the step: weights, autocast, attention, checkpointing
CASES = (
    ("bert", {}),
    ("gpt2", {}),
    ("llama", {}),
    ("bert", {"autocast": "bfloat16"}),
    ("gpt2", {"autocast": "bfloat16", "attention": "eager"}),
    ("llama", {"dtype": "bfloat16"}),
    ("llama", {"dtype": "bfloat16", "checkpointing": True}),
)
PARTS = ("estimate", "generation", "inference", "training", "options")


class Table:
    """Rows of what we say beside what was measured outside."""

    def __init__(self, file):
        self._file = file
        self.passed = self.failed = 0

    def say(self, text):
        print(text, flush=True)
        self._file.write(f"{text}\n")

    def judge(self, name, ours, outside, share, slack=0.0):
        """Right within a share of what was measured, or so many units."""
        is_right = ours is not None and abs(ours - outside) <= share * abs(outside) + slack
        self.passed += is_right
        self.failed += not is_right
        ratio = ours / outside if ours is not None and outside else float("nan")
        word = "ok" if is_right else "WRONG"
        self.say(f"{name:48} {_short(ours):>12} {_short(outside):>12} {ratio:8.4f}  {word}")


def _short(value):
    if value is None:
        return "-"
    return f"{value / 1e6:.1f}M" if abs(value) >= 1e6 else f"{value:.6g}"


def make_model(name, device, attention="sdpa"):
    is_large = device.type == "cuda"
    wide, deep, words = (768, 12, 32000) if is_large else (32, 2, 300)
    torch.manual_seed(1)
    common = {"vocab_size": words, "attn_implementation": attention}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if name == "bert":
        shape = transformers.BertConfig(
            hidden_size=wide, num_hidden_layers=deep, intermediate_size=4 * wide, **common
        )
        shape.num_attention_heads = 12 if is_large else 2
        return transformers.BertForMaskedLM(shape)
    if name == "gpt2":
        heads = 12 if is_large else 2
        shape = transformers.GPT2Config(
            n_embd=wide, n_layer=deep, n_head=heads, n_positions=1024, **common, **ends
        )
        return transformers.GPT2LMHeadModel(shape)
    shape = transformers.LlamaConfig(
        hidden_size=1024 if is_large else 64,
        num_hidden_layers=deep,
        num_attention_heads=16 if is_large else 4,
        num_key_value_heads=4 if is_large else 2,
        intermediate_size=2816 if is_large else 96,
        max_position_embeddings=2048,
        **common,
        **ends,
    )
    return transformers.LlamaForCausalLM(shape)


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


# ---------------------------------------------------------------- estimates


def one_estimate(case, device):
    """In a process of its own: what was estimated, and what a training then took."""
    name, options = CASES[case]
    options = dict(options)
    attention = options.pop("attention", "sdpa")
    batch, seq = (8, 512) if device.type == "cuda" else (2, 32)
    model = make_model(name, device, attention)
    began = time.perf_counter()
    estimate = hf.estimate_memory(model, batch, seq, device=device.type, **options)
    took = time.perf_counter() - began
    found = {"estimate": estimate, "took": took, "measured": None}
    if device.type == "cuda":
        found["measured"] = measure_training(model, batch, seq, device, options)
    print("RESULT " + json.dumps(found))


def measure_training(model, batch, seq, device, options):
    if "dtype" in options:
        model = model.to(getattr(torch, options["dtype"]))
    model = model.to(device).train()
    if options.get("checkpointing"):
        settings = {"use_reentrant": False}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(1, 30000, (batch, seq), device=device)
    half = getattr(torch, options.get("autocast", "bfloat16"))

    def step():
        with torch.autocast(device.type, dtype=half, enabled="autocast" in options):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def judge_estimates(table, device):
    for number, (name, options) in enumerate(CASES):
        words = [f"{k}={v}" for k, v in options.items()]
        label = f"estimate {' '.join([name, *words])}"
        command = [sys.executable, __file__, "-", "--device", device.type, "--case", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            table.failed += 1
            table.say(f"{label}: failed\n{done.stderr[-2000:]}")
            continue
        found = json.loads(lines[-1].removeprefix("RESULT "))
        estimate = found["estimate"]
        if found["measured"] is not None:
            table.judge(label, estimate["total_bytes"], found["measured"], 0.10)
        parts = {k: f"{v / 1e6:.0f}" for k, v in estimate["parts"].items() if v}
        workspace = estimate["workspace_bytes"] / 1e6
        phase = estimate["peak_phase"]
        table.say(f"    {phase} {parts} MB, cuBLAS {workspace:.0f} MB, {found['took']:.2f} s")


# ---------------------------------------------------------------- generation


class Beside:
    """A clock around generate and at each token, and CUDA events, or the clock, around forwards."""

    def __init__(self, model, device):
        self._model, self._device = model, device
        self._generate = model.generate
        model.generate = self._watched
        self._handles = [
            model.register_forward_pre_hook(self._begin, with_kwargs=True),
            model.register_forward_hook(self._end),
        ]

    def _watched(self, *args, streamer, **kwargs):
        self.spans, self._tokens = [], []
        put = streamer.put

        def watched(value):
            put(value)
            self._tokens.append(now(self._device))

        streamer.put = watched
        began = now(self._device)
        output = self._generate(*args, streamer=streamer, **kwargs)
        self.total = now(self._device) - began
        self.first = self._tokens[1] - began  # the prompt comes before
        return output

    def _mark(self):
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _begin(self, module, args, kwargs):
        self._open = kwargs["input_ids"].shape[1], self._mark()

    def _end(self, module, args, output):
        self.spans.append((*self._open, self._mark()))

    def seconds(self, is_prefill):
        """Of the last call."""
        chosen = [(a, b) for length, a, b in self.spans if (length > 1) is is_prefill]
        if self._device.type != "cuda":
            return sum(b - a for a, b in chosen)
        torch.cuda.synchronize()
        return sum(a.elapsed_time(b) for a, b in chosen) / 1e3

    def remove(self):
        del self._model.generate
        for handle in self._handles:
            handle.remove()


def judge_generation(table, device):
    batch, prompt, new = (4, 512, 64) if device.type == "cuda" else (2, 32, 12)
    for name in ("gpt2", "llama"):
        model = make_model(name, device).to(device).eval()
        if device.type == "cuda":
            model = model.to(torch.bfloat16)
        ids = torch.randint(1, 200, (batch, prompt), device=device)
        beside = Beside(model, device)
        got = hf.profile_generation(model, ids, max_new_tokens=new, runs=1)
        beside.remove()
        rate = batch * new / beside.total
        table.judge(f"generation {name} tokens/s", got["tokens_per_second"], rate, 0.02)
        table.judge(
            f"generation {name} first token s", got["time_to_first_token"], beside.first, 0.02
        )
        prefill, decode = (beside.seconds(way) for way in (True, False))
        share = prefill / (prefill + decode)
        table.judge(f"generation {name} prefill s", got["prefill_time"], prefill, 0.05)
        table.judge(f"generation {name} decode s", got["decode_time"], decode, 0.05)
        table.judge(f"generation {name} prefill share", got["prefill_share"], share, 0.05)
        cache, shape = got["kv_cache"], model.config
        heads = getattr(shape, "num_key_value_heads", shape.num_attention_heads)
        size = shape.hidden_size // shape.num_attention_heads * heads * model.dtype.itemsize
        formula = 2 * shape.num_hidden_layers * size * batch * (prompt + new - 1)
        table.judge(f"generation {name} KV bytes", cache["bytes"], formula, 0.0)
        show_other_runs(table, model, ids, new, device)


def show_other_runs(table, model, ids, new, device):
    """Runs that nothing of ours sees: what watching costs."""

    def generate(count):
        began = now(device)
        model.generate(ids, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        return now(device) - began

    generate(new)
    rows = []
    for _ in range(5):  # in turn, so that all of them meet the same machine
        got = hf.profile_generation(model, ids, max_new_tokens=new, runs=1)
        rows.append((generate(new), got["total_time"], generate(1), got["time_to_first_token"]))
    whole, ours, first, our_first = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    table.say(
        f"    unwatched {whole:.4f} s, watched {ours:.4f} s;"
        f" one token {first:.4f} s, first token {our_first:.4f} s"
    )


# ---------------------------------------------------------------- inference and training


def judge_inference(table, device):
    batch, seq = (16, 256) if device.type == "cuda" else (2, 32)
    model = make_model("bert", device).to(device).eval()
    ids = torch.randint(1, 200, (batch, seq), device=device)
    config = _plain_config()
    lengths, ours = [], []
    with torch.no_grad():
        model(ids)
        for _ in range(7):
            began = now(device)
            for _ in range(5):
                model(ids)
                now(device)
            lengths.append((now(device) - began) / 5)
            options = {"config": config, "runs": 5, "batch_size": batch, "batch_sizes": ()}
            ours.append(hf.profile_inference_performance(model, ids, **options))
    times = statistics.median(row["p50"] for row in ours)
    table.judge("inference bert forward s", times, statistics.median(lengths), 0.10)
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        with torch.no_grad():
            model(ids)
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        table.judge("inference bert memory", ours[-1]["avg_memory_usage"], peak, 0.01)


def _plain_config():
    import kinetoscope

    return kinetoscope.create_profiling_config(use_mixed_precision=False, save_profiles=False)


def judge_training(table, device):
    batch, seq, steps = (8, 512, 8) if device.type == "cuda" else (2, 32, 8)
    model = make_model("gpt2", device).to(device).train()
    ids = torch.randint(1, 200, (steps * batch, seq))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    loader = torch.utils.data.DataLoader(rows, batch_size=batch)
    optimizer = torch.optim.AdamW(model.parameters())
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    config = _plain_config()
    options = {"config": config, "optimizer": optimizer, "num_epochs": 2}
    got = hf.profile_fine_tuning(model, loader, loader, **options)
    lengths = []
    for batch_of in [*loader, *loader]:
        began = now(device)
        optimizer.zero_grad(set_to_none=True)
        model(**{k: v.to(device) for k, v in batch_of.items()}).loss.backward()
        optimizer.step()
        lengths.append(now(device) - began)
    outside = statistics.median(lengths[steps:])
    ours = got["epochs"][1]["step_time"]["p50"]
    table.judge("training gpt2 step s", ours, outside, 0.10)
    table.judge("training gpt2 gradient bytes", got["gradient_memory"], weights, 0.0)
    table.judge("training gpt2 optimizer bytes", got["optimizer_memory"], 2 * weights, 0.001)
    table.say(f"    losses {[row['validation_loss'] for row in got['epochs']]}")
    table.say(f"    peak above weights {got['peak_memory']}, dtype {got['dtype']}")


def show_options(table, device):
    model = make_model("llama", device).to(device).eval()
    ids = torch.randint(1, 200, (4, 256 if device.type == "cuda" else 32), device=device)
    backend = "inductor" if device.type == "cuda" else "eager"
    options = {"config": _plain_config(), "seconds": 15.0, "compile_backend": backend}
    got = hf.compare_inference_options(model, ids, **options)
    table.say(f"    best: {got['best']}")
    for name, row in got["variants"].items():
        time_s, gain = row["median_inference_time"], row["speedup"]
        share = row["relative_difference"]
        table.say(
            f"    {name:30} {_short(time_s):>12} s {_short(gain):>9}x {row['verdict']!s:14}"
            f" differs {_short(share)} memory {_short(row['memory_used'])} {row['reason'] or ''}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: 0 passed, 0 failed")
        return 1
    if arguments.case is not None:
        one_estimate(arguments.case, device)
        return 0
    transformers.utils.logging.set_verbosity_error()
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "hf_gpu.txt", "w", encoding="utf-8") as file:
        table = Table(file)
        table.say(f"torch {torch.__version__}, transformers {transformers.__version__}")
        table.say(f"{'what':48} {'kinetoscope':>12} {'outside':>12} {'ratio':>8}")
        steps = (judge_estimates, judge_generation, judge_inference, judge_training, show_options)
        for part, judge in zip(PARTS, steps, strict=True):
            if arguments.only in (None, part):
                judge(table, device)
        table.say(f"{table.passed} passed, {table.failed} failed")
    return 0 if table.passed and not table.failed else 1


if __name__ == "__main__":
    sys.exit(main())
