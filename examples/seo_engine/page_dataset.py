"""Pages for training: tokens that were made once, in batches of like length."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

from .seo_tokenizer import SEOTokenizer

Batch = dict[str, Any]
POOL = 8  # batches whose pages are sorted by length together


class SEODataset(Dataset):
    """Tokens and label of each page. `collate_fn` joins some to a batch without much padding.

    With `is_inline` it holds the pages themselves, which are parsed and tokenised whenever a batch
    is made, each epoch anew. Their lengths are taken either way: batches are the same.
    """

    def __init__(
        self,
        pages: Sequence[str],
        labels: Sequence[int],
        tokenizer: SEOTokenizer,
        name: str = "pages",
        is_inline: bool = False,
    ) -> None:
        if len(pages) != len(labels):
            raise ValueError(f"{name}: {len(pages)} pages, but {len(labels)} labels")
        self.name = name
        self.labels = [int(label) for label in labels]
        self.is_inline = is_inline
        self._tokenizer = tokenizer
        tokens = self._tokenize(pages)
        self.lengths = [len(each) for each in tokens]
        self._samples = list(pages) if is_inline else tokens

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._samples[index], self.labels[index]

    def collate_fn(self, samples: Sequence[tuple[Any, int]]) -> Batch:
        """{input_ids, attention_mask: [batch, longest]; labels: [batch]}"""
        inputs, labels = zip(*samples, strict=True)
        # Without workers this runs in the training process, and the model waits for it. Tokens that
        # were made once, or worker processes, are the repair.
        tokens = self._tokenize(inputs) if self.is_inline else inputs  # fault: input.starved
        batch = pad_tokens(tokens, self._tokenizer.tokenizer.pad_token_id)
        return {**batch, "labels": torch.tensor(labels)}

    def _tokenize(self, pages: Sequence[str]) -> list[torch.Tensor]:
        return [self._tokenizer.tokenize_text(page)["input_ids"][0] for page in pages]


def pad_tokens(tokens: Sequence[torch.Tensor], pad_id: int) -> Batch:
    """Rows of one length, the longest's, and what of them is text."""
    ids = pad_sequence(list(tokens), batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(row) for row in tokens])
    mask = torch.arange(ids.shape[1])[None, :] < lengths[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}


class LengthBatches(Sampler[list[int]]):
    """Batches of pages of like length, in an order that seed and epoch give.

    Each epoch shuffles; then some batches' worth of pages are sorted by length and cut into
    batches, and these are shuffled.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next iteration is for."""
        self._epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        draw = random.Random(f"{self._seed} {self._epoch}")
        order = draw.sample(range(len(self._lengths)), len(self._lengths))
        size = self._batch_size
        batches = []
        for start in range(0, len(order), size * POOL):
            pool = sorted(order[start : start + size * POOL], key=self._lengths.__getitem__)
            batches += [pool[at : at + size] for at in range(0, len(pool), size)]
        draw.shuffle(batches)
        return iter(batches)


def make_loader(
    dataset: SEODataset, batch_size: int, *, seed: int | None = None, num_workers: int = 0
) -> DataLoader:
    """Batches of a dataset: shuffled anew each epoch with a seed, in order without."""
    options = {
        # Loaders draw seeds for their workers, with workers that persist less often: from numbers
        # of their own, so that dropout does not depend on num_workers.
        "generator": torch.Generator().manual_seed(seed or 0),
        "collate_fn": dataset.collate_fn,
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
        "pin_memory": torch.cuda.is_available(),
    }
    if seed is None:
        return DataLoader(dataset, batch_size=batch_size, **options)
    batches = LengthBatches(dataset.lengths, batch_size, seed)
    return DataLoader(dataset, batch_sampler=batches, **options)
