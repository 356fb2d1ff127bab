"""The scoring model: made from a configuration, or read from a folder."""

import os

import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DistilBertConfig,
    PretrainedConfig,
    PreTrainedModel,
)

from .config import SEOConfig

LABELS = {0: "poor", 1: "good"}


def make_model(config: SEOConfig, vocab_size: int, pad_id: int) -> PreTrainedModel:
    """A classifier of pages with random weights, those of the seed; or the one of a folder."""
    attention = "sdpa" if config.optimize_attention else "eager"
    if os.path.isdir(config.model_name):
        return AutoModelForSequenceClassification.from_pretrained(
            config.model_name,
            attn_implementation=attention,
            device_map="auto" if config.use_device_map else None,
        )
    shape = _make_shape(config, vocab_size, pad_id)
    with torch.random.fork_rng():  # the caller's random numbers stay where they are
        torch.manual_seed(config.seed)
        return AutoModelForSequenceClassification.from_config(shape, attn_implementation=attention)


def _make_shape(config: SEOConfig, vocab_size: int, pad_id: int) -> PretrainedConfig:
    general = {
        "vocab_size": vocab_size,
        "max_position_embeddings": config.max_length,
        "pad_token_id": pad_id,
        # The usual 0.02 is for a width of hundreds; a small model learns nothing from it for long.
        "initializer_range": config.hidden_size**-0.5,
        "id2label": LABELS,
        "label2id": {name: number for number, name in LABELS.items()},
    }
    wide = 4 * config.hidden_size
    if config.model_name == "bert":
        return BertConfig(
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=wide,
            **general,
        )
    if config.model_name == "distilbert":
        return DistilBertConfig(
            dim=config.hidden_size,
            n_layers=config.num_layers,
            n_heads=config.num_heads,
            hidden_dim=wide,
            **general,
        )
    raise ValueError(f"model_name is bert, distilbert or a folder, not {config.model_name!r}")
