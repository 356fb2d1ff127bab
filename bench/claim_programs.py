"""What is usually said to make training faster, as two variants of the same work each.

A claim is made for a device and gives callables: `before` and `after` do one block of work, `close`
ends what runs beside. Blocks take some ten milliseconds and more, and end with an idle device.
"""

import contextlib
import zlib
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


@dataclass
class Claim:
    """`usual`: what is claimed elsewhere; `what`: the two variants, in words."""

    name: str
    usual: str
    what: str
    make: object  # of a Setting, gives Variants
    costs: bool = False  # it is said to make a step longer by so much, not shorter


@dataclass
class Setting:
    device: str
    is_tiny: bool = False

    @property
    def is_gpu(self):
        return self.device == "cuda"

    def size(self, on_gpu, on_cpu, tiny):
        return tiny if self.is_tiny else on_gpu if self.is_gpu else on_cpu


@dataclass
class Variants:
    before: object
    after: object
    closing: list = field(default_factory=list)

    def close(self):
        for end in self.closing:
            end()


# -------------------------------------------------------------------- models


class Attention(torch.nn.Module):
    def __init__(self, width, is_by_hand):
        super().__init__()
        self.heads, self.is_by_hand = max(1, width // 64), is_by_hand
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        if self.is_by_hand:
            scores = query @ key.mT / query.shape[-1] ** 0.5
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ value
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(torch.nn.Module):
    def __init__(self, width, is_by_hand):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, is_by_hand)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Transformer(torch.nn.Module):
    def __init__(self, width, layers, is_by_hand=False, is_checkpointed=False):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width, is_by_hand) for _ in range(layers))
        self.head = torch.nn.Linear(width, 64)
        self.is_checkpointed = is_checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
        return self.head(x)


def convolutions(width, depth):
    def stage(first, last, stride):
        conv = torch.nn.Conv2d(first, last, 3, stride, 1, bias=False)
        return [conv, torch.nn.BatchNorm2d(last), torch.nn.ReLU(inplace=True)]

    stages = stage(3, width, 2)
    for _ in range(depth):
        stages += stage(width, width, 1)
    end = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, 10)]
    return torch.nn.Sequential(*stages, *end)


# -------------------------------------------------------------------- work


def wait(setting):
    if setting.is_gpu:
        torch.cuda.synchronize()


class Training:
    """Steps of a model on one batch that stays on the device."""

    def __init__(self, setting, model, x, steps=2, context=None, fused=False):
        torch.manual_seed(0)
        self.setting, self.steps = setting, steps
        self.model = model.to(setting.device)
        self.x = x.to(setting.device)
        self.call = self.model
        self.context = context or contextlib.nullcontext
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=fused)

    def __call__(self):
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            with self.context():
                loss = self.call(self.x).float().square().mean()
            loss.backward()
            self.optimizer.step()
        wait(self.setting)


def text_training(setting, context=None, fused=False, **model):
    width, layers = setting.size((1024, 6), (128, 4), (32, 1))
    batch, length = setting.size((8, 1024), (4, 256), (1, 16))
    x = torch.randn(batch, length, width)
    steps = 1 if not setting.is_gpu else 2
    return Training(setting, Transformer(width, layers, **model), x, steps, context, fused)


def half(setting):
    return lambda: torch.autocast(setting.device, torch.bfloat16)


def precision(setting):
    return Variants(text_training(setting), text_training(setting, half(setting)))


def compiled(setting):
    after = text_training(setting)
    after.call = torch.compile(after.model)
    return Variants(text_training(setting), after)


def attention(setting):
    context = half(setting) if setting.is_gpu else None
    by_hand = text_training(setting, context, is_by_hand=True)
    return Variants(by_hand, text_training(setting, context))


def checkpointing(setting):
    return Variants(text_training(setting), text_training(setting, is_checkpointed=True))


def channels_last(setting):
    context = half(setting) if setting.is_gpu else None
    width, depth = setting.size((256, 8), (32, 4), (8, 1))
    batch, side = setting.size((64, 112), (8, 64), (1, 16))

    def make():
        model = convolutions(width, depth)
        return Training(setting, model, torch.randn(batch, 3, side, side), 1, context)

    after = make()
    after.model.to(memory_format=torch.channels_last)
    after.x = after.x.to(memory_format=torch.channels_last)
    return Variants(make(), after)


def fused_optimizer(setting):
    return Variants(text_training(setting), text_training(setting, fused=True))


# -------------------------------------------------------------------- loading


class Packed(torch.utils.data.Dataset):
    """Compressed samples that are unpacked and normalised when they are read."""

    def __init__(self, count, side):
        noise = torch.randint(0, 8, (3, side, side), dtype=torch.uint8)
        self.packed = zlib.compress(noise.numpy().tobytes(), 6)
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        raw = torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.uint8)
        x = raw.view(3, self.side, self.side).float().roll(index, -1)
        return (x - x.mean()) / (x.std() + 1e-6), index % 10


class Epoch:
    """One pass over a loader, with a training step for each batch."""

    def __init__(self, setting, workers):
        batches = setting.size(12, 12, 2)
        side = setting.size(192, 128, 16)
        batch = setting.size(32, 8, 2)
        more = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
        self.loader = torch.utils.data.DataLoader(
            Packed(batches * batch, side),
            batch,
            num_workers=workers,
            pin_memory=setting.is_gpu,
            **more,
        )
        first = next(iter(self.loader))[0]
        width, depth = setting.size((64, 4), (8, 1), (4, 1))
        self.training = Training(setting, convolutions(width, depth), first, 1)

    def __call__(self):
        for x, _ in self.loader:
            self.training.x = x.to(self.training.setting.device, non_blocking=True)
            self.training()

    def close(self):
        iterator = getattr(self.loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()


def loading(setting):
    workers = 8 if setting.is_gpu else 2
    before, after = Epoch(setting, 0), Epoch(setting, 1 if setting.is_tiny else workers)
    return Variants(before, after, [before.close, after.close])


# -------------------------------------------------------------------- watching


def anomaly(setting):
    plain = text_training(setting)

    def watched():
        with torch.autograd.detect_anomaly(check_nan=True):
            plain()

    return Variants(plain, watched)


def profiled(setting):
    plain = text_training(setting)
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if setting.is_gpu else []
    profiler = torch.profiler.profile(activities=activities, record_shapes=True)
    profiler.start()
    profiler.toggle_collection_dynamic(False, activities)

    def watched():
        profiler.toggle_collection_dynamic(True, activities)
        plain()
        profiler.toggle_collection_dynamic(False, activities)

    return Variants(plain, watched, [profiler.stop])


CLAIMS = (
    Claim("DataLoader workers", "2-5x", "no workers; several, persistent, prefetching", loading),
    Claim("mixed precision", "1.5-2x, half the memory", "float32; autocast to bfloat16", precision),
    Claim("torch.compile", "1.2-3x", "eager; compiled, default mode", compiled),
    Claim("attention", "2-3x", "softmax by hand; scaled_dot_product_attention", attention),
    Claim("channels_last", "5-15 %", "channels first; last", channels_last),
    Claim("fused optimizer", "", "AdamW by foreach; fused", fused_optimizer),
    Claim(
        "checkpointing", "20-30 % longer", "all activations kept; of no block", checkpointing, True
    ),
    Claim("anomaly detection", "2-10x longer", "off; on", anomaly, True),
    Claim("torch.profiler", "10-50 % longer", "off; on, with shapes", profiled, True),
)
