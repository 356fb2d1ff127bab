"""Bytes of a cache of keys and values: of the cache itself, and by the formula."""

import torch

from kinetoscope import _engine


def cache_bytes(cache):
    """What the keys and values of a cache take, of any form that transformers ever gave one: an
    object with layers, with lists of keys and values, of two caches, or tuples. None without."""
    tensors = list(tensors_of_cache(cache))
    if not tensors:
        return None
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def tensors_of_cache(cache):
    if isinstance(cache, torch.Tensor):
        yield cache
        return
    if isinstance(cache, tuple | list):
        parts = cache
    elif hasattr(cache, "self_attention_cache"):
        parts = [cache.self_attention_cache, cache.cross_attention_cache]
    elif hasattr(cache, "layers"):
        parts = [getattr(layer, name, None) for layer in cache.layers for name in _OF_LAYER]
    elif hasattr(cache, "key_cache"):
        parts = [cache.key_cache, cache.value_cache]
    else:
        return
    for part in parts:
        yield from tensors_of_cache(part)


# Keys and values, and those that a quantised cache keeps in another form.
_OF_LAYER = ("keys", "values", "_quantized_keys", "_quantized_values")


def formula_bytes(config, batch, tokens, element_bytes, source_tokens=0):
    """2 x layers x heads of keys x size of a head x batch x tokens x bytes of an element, and for
    an encoder-decoder as much of the encoder's tokens. None when the configuration does not say,
    or its layers are of several kinds."""
    shape = kv_shape(config)
    if shape is None:
        return None
    sizes = {**shape, "batch": batch, "element_bytes": element_bytes}
    total = _engine.kv_cache_bytes(**sizes, tokens=tokens)
    if getattr(config, "is_encoder_decoder", False):
        total += _engine.kv_cache_bytes(**sizes, tokens=source_tokens)
    return total


def kv_shape(config):
    """{layers, kv_heads, head_size} of a configuration; None: it does not say."""
    config = getattr(config, "text_config", None) or config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(config, "multi_query", False):
        return None
    layers = _first(config, "num_decoder_layers", "decoder_layers", "num_hidden_layers")
    heads = _first(config, "decoder_attention_heads", "num_attention_heads")
    width = _first(config, "d_model", "hidden_size")
    if None in (layers, heads, width):
        return None
    return {
        "layers": layers,
        "kv_heads": _first(config, "num_key_value_heads") or heads,
        "head_size": _first(config, "head_dim", "d_kv") or width // heads,
    }


def _first(config, *names):
    return next((v for v in (getattr(config, n, None) for n in names) if v is not None), None)
