"""A small decoder for the programs that generate text."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cache):
        shape = (x.shape[0], x.shape[1], self.heads, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.inputs(x).chunk(3, dim=-1))
        if cache is not None:
            k, v = cache.extend(self, k, v)
        is_causal = cache is None
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return x + self.output(mixed.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    """`any_kernel`: torch may take cuDNN for attention, which makes a plan for each length."""

    def __init__(self, width, heads, layers, vocabulary=1000, any_kernel=False):
        super().__init__()
        self.kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
        if any_kernel:
            self.kernels += [SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
        self.embed = nn.Embedding(vocabulary, width)
        self.attentions = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, cache=None):
        x = self.embed(ids)
        for attention, feed in zip(self.attentions, self.feeds, strict=True):
            with sdpa_kernel(self.kernels):
                x = attention(x, cache)
            x = x + feed(x)
        return self.head(x[:, -1])


class GrowingCache:
    """Keys and values of all tokens so far, copied for each new one."""

    def __init__(self):
        self.kept = {}

    def extend(self, layer, k, v):
        if layer in self.kept:
            old_k, old_v = self.kept[layer]
            k, v = torch.cat((old_k, k), dim=2), torch.cat((old_v, v), dim=2)
        self.kept[layer] = (k, v)
        return k, v


class FixedCache:
    """Keys and values have their room from the start."""

    def __init__(self, length):
        self.length, self.kept, self.used = length, {}, {}

    def extend(self, layer, k, v):
        if layer not in self.kept:
            shape = (*k.shape[:2], self.length, k.shape[3])
            self.kept[layer] = k.new_empty(shape), v.new_empty(shape)
            self.used[layer] = 0
        begin = self.used[layer]
        end = self.used[layer] = begin + k.shape[2]
        keys, values = self.kept[layer]
        keys[:, :, begin:end] = k
        values[:, :, begin:end] = v
        return keys[:, :, :end], values[:, :, :end]
