#!/usr/bin/env python3
"""Holds what kinetoscope.hf says on a GPU against the allocator, CUDA events and a clock outside.

    hf_gpu.py OUT [--device cpu] [--seconds 170] [--only PART]

estimate: estimate_memory against torch.cuda.max_memory_allocated of a real training step.
generation: tokens a second, time to the first token, prefill and decode, and the KV cache.
inference, training: times and memory of profile_inference_performance and profile_fine_tuning, of a
loop and of a Trainer. loading: memory of a model, snapshots of it. variants, options: what
benchmark_model_variants and compare_inference_options say, whose times are not judged.

Where transformers is missing, which one line says, a module of torch stands for its models, and
what needs the package is left out. No part begins when the seconds are over, and a part that fails
counts as one failure and ends no other. OUT receives hf_gpu.txt. The last line is `N passed, N
failed`; the exit status is 0 when none failed. With --device cpu the script is tried on tiny
models, and memory is not judged.
"""

import argparse
import collections
import gc
import os
import pathlib
import statistics
import sys
import time
import traceback

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402

try:
    import transformers  # noqa: E402
except ImportError:
    transformers = None
from kinetoscope import hf  # noqa: E402

# name, options of the step: weights, autocast, attention, checkpointing
CASES = (
    ("bert", {}),
    ("gpt2", {"autocast": "bfloat16", "attention": "eager"}),
    ("llama", {"dtype": "bfloat16", "checkpointing": True}),
    ("llama", {}),
    ("gpt2", {}),
    ("bert", {"autocast": "bfloat16"}),
    ("llama", {"dtype": "bfloat16"}),
)
PLAIN_CASES = (("plain", {}), ("plain", {"autocast": "bfloat16"}), ("plain", {"dtype": "bfloat16"}))


class Table:
    """Rows of what we say beside what was measured outside."""

    def __init__(self, file, seconds=float("inf")):
        self._file = file
        self._ends = time.perf_counter() + seconds
        self.passed = self.failed = 0

    def has_time(self):
        return time.perf_counter() < self._ends

    def try_to(self, judge, *arguments):
        """What fails is a row, and not the end."""
        try:
            judge(self, *arguments)
        except Exception as failure:
            self.failed += 1
            self.say(f"{judge.__name__}: failed: {type(failure).__name__}: {failure}")
            self.say(traceback.format_exc(limit=-4))

    def say(self, text):
        print(text, flush=True)
        self._file.write(f"{text}\n")
        self._file.flush()

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


Output = collections.namedtuple("Output", ["loss", "logits"])


class PlainModel(torch.nn.Module):
    """Stands for a model of transformers where there are none."""

    def __init__(self, wide, deep, words):
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(words, wide)
        layer = torch.nn.TransformerEncoderLayer(wide, wide // 16, 4 * wide, batch_first=True)
        self.blocks = torch.nn.TransformerEncoder(layer, deep, enable_nested_tensor=False)
        self.head = torch.nn.Linear(wide, words)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.blocks(self.table(input_ids)))
        if labels is None:
            return Output(None, logits)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Output(loss, logits)


def make_model(name, device, attention="sdpa", deep=12):
    is_large = device.type == "cuda"
    wide, deep, words = (768, deep, 32000) if is_large else (32, 2, 300)
    if transformers is None:
        return PlainModel(wide, deep, words)
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


def forget(device):
    """Nothing of an earlier case is left on the GPU, neither its tensors nor cuBLAS's workspaces,
    which the next one then makes as a process of its own would."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def judge_estimate(table, device, name, options):
    words = [f"{k}={v}" for k, v in options.items()]
    options = dict(options)
    attention = options.pop("attention", "sdpa")
    batch, seq = (8, 512) if device.type == "cuda" else (2, 32)
    model = make_model(name, device, attention)
    began = time.perf_counter()
    estimate = hf.estimate_memory(model, batch, seq, device=device.type, **options)
    took = time.perf_counter() - began
    if device.type == "cuda":
        forget(device)
        before = torch.cuda.memory_allocated()
        measured = measure_training(model, batch, seq, device, options) - before
        label = f"estimate {' '.join([name, *words])}"
        table.judge(label, estimate["total_bytes"], measured, 0.10)
    parts = {k: f"{v / 1e6:.0f}" for k, v in estimate["parts"].items() if v}
    workspace = estimate["workspace_bytes"] / 1e6
    table.say(f"    {estimate['peak_phase']} {parts} MB, cuBLAS {workspace:.0f} MB, {took:.2f} s")


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
    for name, options in PLAIN_CASES if transformers is None else CASES:
        if not table.has_time():
            table.say(f"    time is up before {name} {options}")
            return
        table.try_to(judge_estimate, device, name, options)
        forget(device)


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
    for _ in range(3):  # in turn, so that all of them meet the same machine
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
            for _ in range(5):
                began = now(device)
                model(ids)
                lengths.append(now(device) - began)
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


def train_outside(model, optimizer, loader, device):
    """Two epochs by a loop that nothing of ours sees: its steps, losses and memory. The state that
    the optimizer makes is held as the weights are."""
    is_gpu = device.type == "cuda"
    before = torch.cuda.memory_allocated() if is_gpu else 0
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    steps, losses = [], []
    for batch in [*loader, *loader]:
        began = now(device)
        optimizer.zero_grad(set_to_none=True)
        loss = model(**{k: v.to(device) for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        steps.append(now(device) - began)
        losses.append(loss.item())
        del loss
    states = [t for state in optimizer.state.values() for t in state.values() if t.is_cuda]
    held = before + sum(t.numel() * t.element_size() for t in states)
    peak = torch.cuda.max_memory_allocated() if is_gpu else 0
    return {"steps": steps, "losses": losses, "peak": peak, "held": held}


def losses(got, outside):
    """(ours, outside) of the second epoch, in which dropout draws other numbers."""
    half = len(outside["losses"]) // 2
    return got["epochs"][1]["train_loss"], statistics.mean(outside["losses"][half:])


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
    outside = train_outside(model, optimizer, loader, device)
    ours = got["epochs"][1]["step_time"]["p50"]
    table.judge("training gpt2 step s", ours, statistics.median(outside["steps"][steps:]), 0.10)
    table.judge("training gpt2 gradient bytes", got["gradient_memory"], weights, 0.0)
    table.judge("training gpt2 optimizer bytes", got["optimizer_memory"], 2 * weights, 0.001)
    table.judge("training gpt2 epoch's loss", *losses(got, outside), 0.05)
    if device.type == "cuda":
        peak = outside["peak"] - outside["held"]
        table.judge("training gpt2 peak above weights", got["peak_memory"], peak, 0.03)


def judge_trainer(table, device, folder):
    """The same by a Trainer, which is as before behind it."""
    batch, seq = (8, 512) if device.type == "cuda" else (2, 32)
    model = make_model("gpt2", device).to(device)
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(1, 200, (8 * batch, seq))]
    settings = transformers.TrainingArguments(
        str(folder / "trainer"),
        per_device_train_batch_size=batch,
        num_train_epochs=2,
        save_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=device.type == "cpu",
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    slope = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    trainer = transformers.Trainer(
        model, settings, train_dataset=rows, optimizers=(optimizer, slope)
    )
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    before = [p.detach().clone() for p in model.parameters()]
    got = hf.profile_fine_tuning(trainer)
    table.judge("trainer gpt2 steps", got["epochs"][1]["steps"], 8, 0.0)
    table.judge("trainer gpt2 gradient bytes", got["gradient_memory"], weights, 0.0)
    table.judge("trainer gpt2 optimizer bytes", got["optimizer_memory"], 2 * weights, 0.001)
    same = [torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    table.judge("trainer gpt2 weights put back", sum(same), len(same), 0.0)
    table.judge("trainer gpt2 scheduler put back", slope.last_epoch, 0, 0.0)
    left = [path for path in folder.rglob("*") if "checkpoint" in path.name]
    table.judge("trainer gpt2 checkpoints left", len(left) + len(optimizer.state), 0, 0.0)
    step = got["epochs"][1]["step_time"]["p50"]
    table.say(f"    step {step:.4f} s, peak above weights {_short(got['peak_memory'])}")


# ---------------------------------------------------------------- loading, variants, options


def judge_loading(table, device):
    shape = make_model("llama", torch.device("cpu")).config
    shape.hidden_size, shape.num_hidden_layers = 512, 4
    forget(device)
    got = hf.load_model_with_profiling(shape, model_class="LlamaForCausalLM", device=device)
    model = got["model"]
    size = sum(t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()])
    table.judge("loading llama bytes of device", sum(got["device_bytes"].values()), size, 0.0)
    if device.type != "cuda":
        return
    table.judge("loading llama gpu_memory", got["gpu_memory"], size, 0.02)
    profiler = hf.TransformersMemoryProfiler()
    first = profiler.snapshot_model_memory(model, "a")
    allocated = torch.cuda.memory_allocated()
    table.judge("snapshot allocated", first["gpu_memory_allocated"], allocated, 0.0)
    ballast = torch.ones(64 * 2**20, dtype=torch.uint8, device=device)
    profiler.snapshot_model_memory(model, "b")
    grown = profiler.analyze_memory_growth()["a_to_b"]["gpu_memory_growth"]
    table.judge("snapshot growth", grown, ballast.numel(), 0.0)


class Numbers:
    """In place of a tokenizer: each text is its word's lengths."""

    pad_token, model_max_length = "0", 512

    def get_vocab(self):
        return {str(number): number for number in range(300)}

    def __call__(self, texts, return_tensors=None, **options):
        ids = [[len(word) + 1 for word in text.split()] for text in texts]
        mask = [[1] * len(row) for row in ids]
        found = {"input_ids": ids, "attention_mask": mask}
        return {k: torch.tensor(v) for k, v in found.items()} if return_tensors else found


def judge_variants(table, device):
    """Twice as many layers take longer; a name that does not exist ends nothing."""
    texts = ["one two three four five six seven eight " * 16] * 8
    is_large = device.type == "cuda"
    models = {deep: make_model("gpt2", device, deep=deep) for deep in (4, 12)}
    named = {f"{deep} layers": model.to(device).eval() for deep, model in models.items()}
    named["missing"] = "/no/such/folder"
    options = {"tokenizer": Numbers(), "config": _plain_config(), "seconds": 4.0}
    got = hf.benchmark_model_variants(named, texts, **options)
    table.say(f"    missing: {got['missing']['failure']}")
    table.judge("variants that fail", sum(row["failure"] is not None for row in got.values()), 1, 0)
    for name, row in list(got.items())[:2]:
        interval = row["inference_interval"]
        table.say(f"    {name}: {row['median_inference_time']:.6f} s {interval} {row['verdict']}")
    if is_large:
        table.judge("variants: more is slower", got["12 layers"]["verdict"] == "slower", True, 0)


def show_options(table, device):
    model = make_model("llama", device, deep=4).to(device).eval()
    ids = torch.randint(1, 200, (4, 256 if device.type == "cuda" else 32), device=device)
    backend = "inductor" if device.type == "cuda" else "eager"
    options = {"config": _plain_config(), "seconds": 10.0, "compile_backend": backend}
    groups = ["attention", "precision", "quantization", "compile"]
    if transformers is None:
        groups.remove("attention")
    got = hf.compare_inference_options(model, ids, options=groups, **options)
    table.say(f"    best: {got['best']}")
    for name, row in got["variants"].items():
        time_s, gain = row["median_inference_time"], row["speedup"]
        share = row["relative_difference"]
        table.say(
            f"    {name:30} {_short(time_s):>12} s {_short(gain):>9}x {row['verdict']!s:14}"
            f" differs {_short(share)} memory {_short(row['memory_used'])} {row['reason'] or ''}"
        )


def parts_of(folder):
    """{name: (what judges it, whether it needs transformers)}, the most telling ones first."""
    return {
        "estimate": (judge_estimates, False),
        "generation": (judge_generation, True),
        "inference": (judge_inference, False),
        "training": (judge_training, False),
        "trainer": (lambda table, device: judge_trainer(table, device, folder), True),
        "loading": (judge_loading, True),
        "variants": (judge_variants, False),
        "options": (show_options, False),
    }


def run_parts(table, device, folder, only):
    for name, (judge, needs_transformers) in parts_of(folder).items():
        if only not in (None, name):
            continue
        if needs_transformers and transformers is None:
            table.say(f"{name}: left out, for transformers is not installed")
        elif not table.has_time():
            table.say(f"{name}: left out, for time is up")
        else:
            began = time.perf_counter()
            table.try_to(judge, device)
            table.say(f"    {name}: {time.perf_counter() - began:.1f} s")
            forget(device)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--only", choices=list(parts_of(None)))
    return parser.parse_args()


def say_where(table, device):
    if transformers is None:
        table.say("transformers is not installed: a module of torch stands for its models")
    else:
        transformers.utils.logging.set_verbosity_error()
        table.say(f"transformers {transformers.__version__}")
    if device.type == "cuda":
        name = torch.cuda.get_device_name()
    else:
        torch.set_num_threads(1)  # more would wait for whoever else uses the machine
        name = "CPU"
    table.say(f"torch {torch.__version__}, {name}")


def main():
    arguments = read_arguments()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: 0 passed, 0 failed")
        return 1
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "hf_gpu.txt", "w", encoding="utf-8") as file:
        table = Table(file, arguments.seconds)
        say_where(table, device)
        table.say(f"{'what':48} {'kinetoscope':>12} {'outside':>12} {'ratio':>8}")
        run_parts(table, device, folder, arguments.only)
        table.say(f"{table.passed} passed, {table.failed} failed")
    return 0 if table.passed and not table.failed else 1


if __name__ == "__main__":
    sys.exit(main())
