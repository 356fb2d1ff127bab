"""AdvancedLLMSEOEngine: trains a model that scores pages, and scores pages with it."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from .checkpoint import load_checkpoint, save_checkpoint
from .config import SEOConfig
from .early_stopping import EarlyStopping
from .model_factory import LABELS, make_model
from .optimization import Optimization
from .page_corpus import make_pages
from .page_dataset import Batch, SEODataset, make_loader
from .page_text import text_of_page
from .profiling import EngineProfiling
from .seo_tokenizer import SEOTokenizer

Results = dict[str, Any]
VOCABULARY_PAGES = 200
GOOD = 1


class AdvancedLLMSEOEngine:
    """`config`: a SEOConfig. `seo_model`: a transformers model; `tokenizer`: a SEOTokenizer;
    `code_profiler`: a kinetoscope.CodeProfiler, None where there is none."""

    def __init__(self, config: SEOConfig) -> None:
        self.config = config
        self.profiling = EngineProfiling(config)
        self.code_profiler = self.profiling.code_profiler
        self.device = _choose_device(config)
        self.tokenizer = self._make_tokenizer()
        self.seo_model = self._make_model()
        self._forward = self._make_forward()
        self.optimization = Optimization(self.seo_model, config, self.device)
        self.early_stopping = _make_early_stopping(config)
        self.epochs_done = 0
        self._steps_planned = 0

    # ---------------------------------------------------------------- setting up

    def _make_tokenizer(self) -> SEOTokenizer:
        config = self.config
        with self.profiling.region("profile_tokenization", "make_tokenizer", "tokenization"):
            if os.path.isdir(config.model_name):
                return SEOTokenizer(config.model_name)
            pages = make_pages(VOCABULARY_PAGES, config.seed).texts
            return SEOTokenizer.trained_on(pages, config.vocab_size, config.max_length)

    def _make_model(self) -> torch.nn.Module:
        pad_id = self.tokenizer.tokenizer.pad_token_id
        with self.profiling.region("profile_model_loading", "make_model", "custom"):
            model = make_model(self.config, len(self.tokenizer), pad_id)
        if self.config.gradient_checkpointing:
            # Older releases of transformers know it under its first name only.
            name = "activation_checkpointing_enable"
            getattr(model, name, model.gradient_checkpointing_enable)()
        if self.config.use_channels_last:
            model.to(memory_format=torch.channels_last)  # of use only where a model has images
        with self.profiling.placement("place_model"):
            return model if self.config.use_device_map else model.to(self.device)

    def _make_forward(self) -> Callable[..., Any]:
        if not self.config.use_torch_compile:
            return self.seo_model
        with self.profiling.region("profile_model_compilation", "compile", "model_compilation"):
            return torch.compile(self.seo_model, dynamic=True)

    # ---------------------------------------------------------------- data

    def create_training_dataset(
        self, texts: Sequence[str], labels: Sequence[int], name: str = "pages"
    ) -> SEODataset:
        """Pages (HTML or plain text) and labels: 1 good, 0 poor. ValueError: not as many."""
        is_inline = self.config.tokenize_inline
        with self.profiling.region("profile_pipeline_operations", name, "text_preprocessing"):
            return SEODataset(texts, labels, self.tokenizer, name, is_inline)

    def make_loader(self, dataset: SEODataset, *, is_shuffled: bool = False) -> DataLoader:
        """Batches as the config says; shuffled ones in an order of their own in each epoch."""
        config = self.config
        return make_loader(
            dataset,
            config.batch_size,
            seed=config.seed if is_shuffled else None,
            num_workers=config.num_workers,
        )

    def _to_device(self, batch: Batch) -> Batch:
        with self.profiling.region("profile_device_mapping", "copy_batch", "memory_transfer"):
            return {name: t.to(self.device, non_blocking=True) for name, t in batch.items()}

    # ---------------------------------------------------------------- training

    def train(
        self, train_loader: DataLoader, val_loader: DataLoader | None = None
    ) -> list[Results]:
        """Trains until num_epochs are done, or the validation loss no longer falls; returns what
        train_epoch says of each epoch. After resume() it goes on where the checkpoint was made."""
        with self.profiling.recording(self.seo_model):
            return self.profiling.training_loop(self._train)(train_loader, val_loader)

    def _train(self, train_loader: DataLoader, val_loader: DataLoader | None) -> list[Results]:
        history = []
        while self.epochs_done < self.config.num_epochs and not self._should_stop():
            history.append(self.train_epoch(train_loader, val_loader, self.early_stopping))
            if self.config.checkpoint_dir is not None:
                name = f"epoch{self.epochs_done:03}.pt"
                self.save_checkpoint(os.path.join(self.config.checkpoint_dir, name))
        return history

    def _should_stop(self) -> bool:
        return self.early_stopping is not None and self.early_stopping.should_stop

    def train_epoch(
        self,
        train_loader: DataLoader,
        val_loader: DataLoader | None = None,
        early_stopping: EarlyStopping | None = None,
    ) -> Results:
        """One pass over the training pages, then one over those for validation.

        train_loss: mean of the batches. losses: of each batch. learning_rate: of the next step.
        With val_loader: val_loss, val_accuracy. should_stop: what early_stopping says of that.
        Random numbers depend on the config's seed and the number of the epoch alone. ValueError:
        the loader is empty.
        """
        with self._random_of_epoch():
            return self._train_epoch(train_loader) | self._validate(val_loader, early_stopping)

    def _train_epoch(self, loader: DataLoader) -> Results:
        self._plan(loader)
        losses = [self._train_step(batch) for batch in self.profiling.batches(loader)]
        if not losses:
            raise ValueError("the training loader is empty: there is nothing to learn from")
        self.epochs_done += 1
        self.profiling.snapshot_memory(f"epoch{self.epochs_done}")
        values = torch.stack(losses).tolist()  # the first time that the host waits for the losses
        return {
            "epoch": self.epochs_done,
            "train_loss": sum(values) / len(values),
            "losses": values,
            "learning_rate": self.optimization.learning_rate,
            "should_stop": False,
        }

    def _plan(self, loader: DataLoader) -> None:
        if self.optimization.schedule is None:
            self._steps_planned = len(loader) * self.config.num_epochs
            self.optimization.plan(self._steps_planned)
        set_epoch = getattr(getattr(loader, "batch_sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(self.epochs_done)

    @contextlib.contextmanager
    def _random_of_epoch(self) -> Iterator[None]:
        gpus = [torch.cuda.current_device()] if self.device.type == "cuda" else []
        with torch.random.fork_rng(gpus):
            torch.manual_seed(self.config.seed * 100_003 + self.epochs_done)
            yield

    def _train_step(self, batch: Batch) -> torch.Tensor:
        """Returns the loss, on the device: nothing here waits for a GPU."""
        optimization, profiling = self.optimization, self.profiling
        self.seo_model.train()
        batch = self._to_device(batch)
        with profiling.region("profile_model_forward", "forward", "forward_pass"):
            with optimization.autocast():
                loss = self._forward(**batch).loss
        with profiling.region("profile_autograd_operations", "backward", "backward_pass"):
            optimization.backward(loss)
        with profiling.region("profile_fine_tuning", "optimizer", "optimizer_step"):
            norm = optimization.step()
        self._note_step(batch, loss, norm)
        profiling.end_step()
        return loss.detach()

    def _note_step(self, batch: Batch, loss: torch.Tensor, norm: torch.Tensor) -> None:
        note, optimization = self.profiling.note, self.optimization
        note("debug_data_loading", lambda: {"batch_shape": tuple(batch["input_ids"].shape)})
        note("debug_forward_pass", lambda: {"loss": loss.item(), "dtype": loss.dtype})
        note("debug_backward_pass", lambda: {"gradient_is_finite": bool(norm.isfinite())})
        note("debug_gradient_norms", lambda: {"norm": norm.item()})
        note("debug_device_placement", lambda: {name: t.device for name, t in batch.items()})
        note("debug_memory_usage", lambda: _memory_of(self.device))
        note("debug_mixed_precision", lambda: {"scale": optimization.scaler.get_scale()})
        note("debug_lr_scheduling", lambda: {"learning_rate": optimization.learning_rate})

    # ---------------------------------------------------------------- judging

    def _validate(self, loader: DataLoader | None, stopping: EarlyStopping | None) -> Results:
        if loader is None:
            return {}
        judged = self.evaluate_model(loader)
        results = {"val_loss": judged["loss"], "val_accuracy": judged["accuracy"]}
        if stopping is None:
            return results
        should_stop = stopping.update(judged["loss"])
        self.profiling.note("debug_early_stopping", stopping.state_dict)
        return results | {"should_stop": should_stop}

    def evaluate_model(self, loader: DataLoader) -> Results:
        """loss: mean of the pages. accuracy: the part that is judged right. chance: the part that
        would be, if all got the label that most have. pages: their number. ValueError: no pages."""
        logits, labels = self._predict(loader)
        loss = torch.nn.functional.cross_entropy(logits, labels).item()
        counts = torch.bincount(labels)
        results = {
            "loss": loss,
            "accuracy": (logits.argmax(1) == labels).float().mean().item(),
            "chance": counts.max().item() / len(labels),
            "pages": len(labels),
        }
        self.profiling.note("debug_validation", lambda: results)
        return results

    def _predict(self, loader: DataLoader) -> tuple[torch.Tensor, torch.Tensor]:
        self.seo_model.eval()
        found = []
        with self.profiling.region("profile_inference", "evaluate", "validation"):
            with torch.inference_mode(), self.optimization.autocast():
                for batch in self.profiling.batches(loader):
                    batch = self._to_device(batch)
                    labels = batch.pop("labels")
                    found.append((self._forward(**batch).logits.float(), labels))
        if not found:
            raise ValueError("the loader is empty: there is nothing to judge")
        logits, labels = zip(*found, strict=True)
        return torch.cat(logits), torch.cat(labels)

    def analyze_seo_score(self, text: str) -> Results:
        """Of one page, HTML or plain text: score: 0 to 100, the probability that it is good in
        percent. label: "good" or "poor". tokens: how many were looked at."""
        self.seo_model.eval()
        with self.profiling.region("profile_inference", "analyze_seo_score", "model_inference"):
            tokens = self.tokenizer.tokenize_text(text).to(self.device)
            with torch.inference_mode(), self.optimization.autocast():
                logits = self._forward(
                    input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
                ).logits.float()
        probability = logits.softmax(1)[0, GOOD].item()
        return {
            "score": 100 * probability,
            "label": LABELS[int(probability > 0.5)],
            "tokens": tokens["input_ids"].shape[1],
        }

    # ---------------------------------------------------------------- profiling and debugging

    def profile_model_performance(self, loader: DataLoader, num_batches: int = 10) -> Results:
        """kinetoscope's report of some training steps, after which all is as it was before.
        RuntimeError: there is no CodeProfiler."""
        if self.code_profiler is None:
            raise RuntimeError("there is no CodeProfiler: kinetoscope is missing, or too old")
        return self.code_profiler.profile_training_pipeline(
            self.seo_model, loader, num_batches, optimizer=self.optimization.optimizer
        )

    def compare_variants(self, folders: list[str], pages: list[str]) -> Results:
        """Engines that were saved, beside each other: {folder: {avg_inference_time, speedup,
        verdict, total_parameters, ...}}, the first as the one to compare with. Empty with
        profile_model_variants off; with benchmark_different_sizes by batch sizes, too.
        RuntimeError: kinetoscope is missing."""
        return self.profiling.compare_variants(folders, [text_of_page(page) for page in pages])

    def estimate_memory(self) -> Results:
        """What a training step with the longest pages takes at its peak, before there is memory
        for it: {total_bytes, parts, ...}. RuntimeError: kinetoscope is missing."""
        return self.profiling.estimate_memory(self.seo_model, self.config.max_length)

    def enable_debugging(self, names: list[str] | None = None) -> None:
        """Switches these on, with or without "debug_" before them; all without names."""
        self.profiling.enable_debugging(
            names,
            model=self.seo_model,
            optimizer=self.optimization.optimizer,
            early_stopping=self.early_stopping,
        )

    def disable_debugging(self) -> None:
        """Switches all off."""
        self.profiling.disable_debugging()

    def get_debugging_status(self) -> Results:
        """{switch: {enabled, cost_us_per_step}}"""
        return self.profiling.get_debugging_status()

    # ---------------------------------------------------------------- keeping

    def save(self, folder: str) -> None:
        """Model and tokenizer, for SEOPipeline(folder), or as model_name of another engine."""
        self.seo_model.save_pretrained(folder)
        self.tokenizer.save(folder)

    def save_checkpoint(self, path: str) -> None:
        """All that resume() needs. OSError."""
        stopping = self.early_stopping
        state = {
            "model": self.seo_model.state_dict(),
            "optimization": self.optimization.state_dict(),
            "early_stopping": None if stopping is None else stopping.state_dict(),
            "epochs_done": self.epochs_done,
            "steps_planned": self._steps_planned,
        }
        save_checkpoint(path, state)

    def resume(self, path: str) -> None:
        """Goes on from a checkpoint of an engine with the same config. OSError; RuntimeError where
        the model is another one."""
        state = load_checkpoint(path, self.device)
        self.seo_model.load_state_dict(state["model"])
        self._steps_planned = state["steps_planned"]
        self.optimization.load_state_dict(state["optimization"], self._steps_planned)
        if self.early_stopping is not None and state["early_stopping"] is not None:
            self.early_stopping.load_state_dict(state["early_stopping"])
        self.epochs_done = state["epochs_done"]


def _choose_device(config: SEOConfig) -> torch.device:
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.device)


def _make_early_stopping(config: SEOConfig) -> EarlyStopping | None:
    if config.early_stopping_patience == 0:
        return None
    return EarlyStopping(config.early_stopping_patience, config.early_stopping_delta)


def _memory_of(device: torch.device) -> Results:
    if device.type == "cuda":
        return {"gpu_bytes": torch.cuda.memory_allocated(device)}
    with open("/proc/self/statm", encoding="ascii") as file:
        return {"rss_bytes": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
