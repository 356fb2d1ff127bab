"""Setting: one way to run a model. It makes what runs it so, and writes itself as code."""

import contextlib
import dataclasses
from dataclasses import dataclass

import torch

from kinetoscope.torch.tensor_tree import mapped
from kinetoscope.tune import checkpointing, quantization
from kinetoscope.tune.tf32_switch import tf32

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


@dataclass(frozen=True)
class Setting:
    """None and False: as the program has it.

    precision: float32, tf32, float16 or bfloat16 (the last two by autocast, float16 with a scaled
    loss in training). compile: a mode of torch.compile. attention: a backend of SDPA. checkpointed:
    names of modules. optimizer: fused, foreach or loop. threads: of operators on the CPU.
    quantization: docs/tuning_python.md has the names.
    """

    precision: str | None = None
    channels_last: bool = False
    compile: str | None = None
    attention: str | None = None
    checkpointed: tuple[str, ...] = ()
    optimizer: str | None = None
    threads: int | None = None
    quantization: str | None = None

    def with_(self, **changes):
        """The same but for these."""
        return dataclasses.replace(self, **changes)

    def changes(self):
        """{field: value} of what is not as the program has it."""
        default = Setting()
        pairs = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return {name: value for name, value in pairs if value != getattr(default, name)}

    @property
    def tolerance_name(self):
        """Whose line of agreement.TOLERANCES counts."""
        if self.quantization is not None:
            return quantization.WAYS[self.quantization].tolerance_name
        return self.precision or "float32"

    @property
    def half(self):
        """dtype of autocast, None without it."""
        return HALVES.get(self.precision)

    @property
    def needs_own_model(self):
        """Whether the model itself is another one."""
        return bool(self.channels_last or self.checkpointed or self.quantization)

    def change_model(self, model):
        """The model as this setting has it; changes the one that is given."""
        if self.channels_last:
            model = model.to(memory_format=torch.channels_last)
        if self.checkpointed:
            checkpointing.put_on(model, self.checkpointed)
        if self.quantization is not None:
            model = quantization.WAYS[self.quantization].apply(model)
        return model

    def change_inputs(self, inputs):
        """Images go into a model in channels_last as such; everything else as it is."""
        return mapped(_as_channels_last, inputs) if self.channels_last else inputs

    def compiled(self, model):
        """What is called in place of the model."""
        if self.compile is None:
            return model
        return torch.compile(model, mode=None if self.compile == "default" else self.compile)

    @contextlib.contextmanager
    def around_steps(self):
        """What holds for many steps: threads, TF32, the backend of attention. Put back after it."""
        with contextlib.ExitStack() as stack:
            if self.threads is not None:
                stack.callback(torch.set_num_threads, torch.get_num_threads())
                torch.set_num_threads(self.threads)
            if self.precision in ("float32", "tf32"):
                stack.enter_context(tf32(self.precision == "tf32"))
            if self.attention is not None:
                stack.enter_context(_attention_by(self.attention))
            yield

    def around_forward(self, device_type):
        """What holds for a forward and its loss."""
        if self.half is None:
            return contextlib.nullcontext()
        return torch.autocast(device_type, self.half)

    def code(self, device_type="cuda"):
        """Lines that do the same in the program."""
        return [line for part in self._code(device_type) for line in part]

    def _code(self, device_type):
        if self.threads is not None:
            yield [f"torch.set_num_threads({self.threads})"]
        if self.precision == "tf32":
            yield [
                'torch.set_float32_matmul_precision("high")',
                "torch.backends.cudnn.allow_tf32 = True",
            ]
        if self.channels_last:
            yield ["model = model.to(memory_format=torch.channels_last)"]
            yield ["# and the images: images.to(memory_format=torch.channels_last)"]
        if self.checkpointed:
            yield checkpointing.code(self.checkpointed)
        if self.quantization is not None:
            yield quantization.WAYS[self.quantization].code
        if self.compile is not None:
            mode = "" if self.compile == "default" else f', mode="{self.compile}"'
            yield [f"model = torch.compile(model{mode})"]
        if self.optimizer is not None:
            given = {"fused": "fused=True", "foreach": "foreach=True", "loop": "foreach=False"}
            yield [f"# give the optimizer {given[self.optimizer]}"]
        yield self._code_of_forward(device_type)

    def _code_of_forward(self, device_type):
        lines = []
        if self.attention is not None:
            backend = f"torch.nn.attention.SDPBackend.{BACKENDS[self.attention]}"
            lines.append(f"with torch.nn.attention.sdpa_kernel({backend}):")
        if self.half is not None:
            lines.append(f'with torch.autocast("{device_type}", dtype={self.half}):')
        if lines:
            lines = ["    " * depth + line for depth, line in enumerate(lines)]
            lines.append("    " * len(lines) + "output = model(inputs)  # and the loss")
        if self.precision == "float16":
            lines.append("# in training: torch.amp.GradScaler around backward and step")
        return lines


def _as_channels_last(tensor):
    is_image = tensor.dim() == 4 and tensor.is_floating_point()
    return tensor.contiguous(memory_format=torch.channels_last) if is_image else tensor


def _attention_by(name):
    from torch.nn import attention  # not in torch 2.0: then the setting fails, with this as reason

    return attention.sdpa_kernel(getattr(attention.SDPBackend, BACKENDS[name]))
