"""profile_device_placement: copies between devices in a block, counted as torch dispatches them."""

from time import perf_counter_ns

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import kinetoscope
from kinetoscope.torch.tensor_tree import tensors_of

_COPIES = ("aten::_to_copy", "aten::copy_")


class profile_device_placement:  # noqa: N801 - used as a function in a with statement
    """Counts copies from one device to another in the block, of this thread.

    `with profile_device_placement("load") as placement: ...` and then `placement.result`:
    {operation, duration, device_transfers, bytes, direction}: seconds of the block with all copies
    done; copies; bytes that they moved; "cpu_to_cuda", "cuda_to_cpu", ..., joined by "+", None
    without a copy. `directions` has [copies, bytes] of each. The block is a region
    "memory_transfer" of a recording. Exceptions pass. Inside, torch.compile compiles nothing new.
    """

    def __init__(self, name):
        self._name = name
        self._region = kinetoscope.profile_operation(name, "memory_transfer")
        self._counter = None
        self.result = None

    def __enter__(self):
        if self._counter is not None:
            raise RuntimeError("this profile_device_placement is in use already")
        self._counter = _CopyCounter()
        self._region.begin()
        self._counter.__enter__()
        self._began_ns = perf_counter_ns()
        return self

    def __exit__(self, *error):
        counter, self._counter = self._counter, None
        counter.__exit__(*error)
        if any("cuda" in direction for direction in counter.directions):
            torch.cuda.synchronize()
        duration = (perf_counter_ns() - self._began_ns) / 1e9
        self._region.end()
        copies = counter.directions
        self.result = {
            "operation": self._name,
            "duration": duration,
            "device_transfers": sum(count for count, _ in copies.values()),
            "bytes": sum(size for _, size in copies.values()),
            "direction": "+".join(sorted(copies)) or None,
            "directions": copies,
        }
        return False


class _CopyCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.directions = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function._schema.name in _COPIES:
            self._see(function, args, result)
        return result

    def _see(self, function, args, result):
        # copy_(target, source) gives its target; the others take what they copy.
        is_into = function._schema.name == "aten::copy_"
        source = next(tensors_of(args[1:] if is_into else args), None)
        target = next(tensors_of(result), None)
        if source is None or target is None or source.device == target.device:
            return
        direction = f"{source.device.type}_to_{target.device.type}"
        entry = self.directions.setdefault(direction, [0, 0])
        entry[0] += 1
        entry[1] += target.numel() * target.element_size()
