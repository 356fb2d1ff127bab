#!/usr/bin/env python3
"""Trains the engine of examples/seo_engine on pages that it makes itself, and judges new ones.

    python3 examples/train_seo.py
    kscope run examples/train_seo.py --fault input.starved
    PYTHONPATH=python python3 examples/train_seo.py --profile profiles
    PYTHONPATH=python python3 examples/train_seo.py --fault input.starved --tune

The fault is a typical one: pages are parsed and tokenised when their batch is made, in the training
process, so that the model waits. Worker processes (`--workers 2`) repair it, and better still are
tokens that are made once, before the training, as without the fault. All train on the same batches,
to the same losses.

The last line is `median_step_ms N median_step_cpu_ms M`: of the steps after the first ones, by the
clock, and by the time that the process was running in them.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched from anywhere
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # loaders fork

import torch  # noqa: E402
from seo_engine.config import SEOConfig  # noqa: E402
from seo_engine.engine import AdvancedLLMSEOEngine  # noqa: E402
from seo_engine.page_corpus import make_pages  # noqa: E402

FAULT = "input.starved"
WARM_STEPS = 10  # not counted: memory is allocated, caches fill
PROFILED = "8:1:6:1"  # --profile records six steps, after eight and one to warm up


class StepClock:
    """Stands between the engine and its batches; a step ends when the next one is asked for."""

    def __init__(self, loader):
        self._loader = loader
        self.batch_sampler = loader.batch_sampler
        self.wall_ms = []
        self.cpu_ms = []

    def __len__(self):
        return len(self._loader)

    def __iter__(self):
        before = None
        iterator = iter(self._loader)
        while True:
            now = time.perf_counter(), time.process_time()
            if before is not None:
                self.wall_ms.append((now[0] - before[0]) * 1e3)
                self.cpu_ms.append((now[1] - before[1]) * 1e3)
            before = now
            try:
                batch = next(iterator)
            except StopIteration:
                return
            yield batch

    def summary(self):
        medians = [statistics.median(ms[WARM_STEPS:] or ms) for ms in (self.wall_ms, self.cpu_ms)]
        return "median_step_ms {:.3f} median_step_cpu_ms {:.3f}".format(*medians)


def make_config(options):
    config = SEOConfig(
        seed=options.seed,
        device=options.device,
        num_epochs=options.epochs,
        checkpoint_dir=options.checkpoints,
        num_workers=options.workers,
        tokenize_inline=options.fault == FAULT,
        profile_training=options.profile is not None,
    )
    if options.profile is not None:
        config.output_dir = options.profile
        config.profiler_schedule = PROFILED
    return config


def train(engine, options):
    """Returns how long the steps took."""
    pages = make_pages(options.pages, options.seed)
    held_out = make_pages(options.pages // 3, options.seed + 1_000_000)
    train_set = engine.create_training_dataset(pages.texts, pages.labels, "train")
    val_set = engine.create_training_dataset(held_out.texts, held_out.labels, "held_out")
    if options.tune:
        result = engine.tune(engine.make_loader(train_set, is_shuffled=True))
        print(result, "", *result.code, "", sep="\n", flush=True)
    clock = StepClock(engine.make_loader(train_set, is_shuffled=True))
    val_loader = engine.make_loader(val_set)
    if options.resume:
        engine.resume(options.resume)
    for epoch in engine.train(clock, val_loader):
        print(
            f"epoch {epoch['epoch']:2}  loss {epoch['train_loss']:.6f}  held-out loss "
            f"{epoch['val_loss']:.6f}  right {epoch['val_accuracy']:.3f}"
            + ("  stops early" if epoch["should_stop"] else ""),
            flush=True,
        )
    judged = engine.evaluate_model(val_loader)
    print(f"held-out pages right: {judged['accuracy']:.3f}, by chance {judged['chance']:.3f}")
    score = engine.analyze_seo_score(held_out.texts[0])
    print(f"the first one scores {score['score']:.1f} of 100: {score['label']}")
    return clock


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=SEOConfig.num_epochs)
    parser.add_argument("--pages", type=int, default=384, help="to train on (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--fault", choices=(FAULT,), help="what to plant")
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches")
    parser.add_argument("--checkpoints", metavar="DIR", help="leave one there after each epoch")
    parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
    parser.add_argument("--tune", action="store_true", help="first look for what is faster")
    parser.add_argument("--profile", metavar="DIR", help="record with kinetoscope.CodeProfiler")
    parser.add_argument("--save", metavar="DIR", help="model and tokenizer, for SEOPipeline")
    return parser.parse_args()


def main():
    options = parse_options()
    # One thread, so that the step costs the same however many cores are busy with other things.
    torch.set_num_threads(1)
    engine = AdvancedLLMSEOEngine(make_config(options))
    clock = train(engine, options)
    if options.save:
        engine.save(options.save)
    print(clock.summary())


if __name__ == "__main__":
    main()
