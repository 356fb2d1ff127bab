"""What goes through the modules of a forward: shapes, types, devices, and where devices differ.

Inputs of a kind that was not seen yet make all modules be looked at for one forward; after that a
forward costs one look at its inputs.
"""

import functools

from kinetoscope.debug.model_parts import parts_of
from kinetoscope.torch.tensor_tree import tensors_of

KINDS_MAX = 8
ROWS_MAX = 200


class ForwardTable:
    """`wants_shapes`, `wants_devices`: which of the two switches are on."""

    def __init__(self, session, wants_shapes=True, wants_devices=True):
        self.wants_shapes, self.wants_devices = wants_shapes, wants_devices
        self._session = session
        self._kinds = set()
        self._handles = []
        self._rows = None

    def call_began(self, module, call):
        kind = tuple(_kind(t) for t in tensors_of([*call.args, call.kwargs]))
        if self.wants_shapes:
            shapes = [{"shape": s, "dtype": d, "device": v} for s, d, v in kind]
            self._session.write("forward_pass", {"inputs": shapes}, _inputs_text(kind))
        if kind in self._kinds or len(self._kinds) >= KINDS_MAX:
            return
        self._kinds.add(kind)
        self._rows = []
        for name, part in parts_of(module):
            self._look_at(name or type(part).__name__, part, part is module, call)
        if self.wants_devices:
            self._tell_placement(module, kind)

    def _look_at(self, name, part, is_root, call):
        before = functools.partial(self._before, name)
        after = functools.partial(self._after, name)
        if is_root:  # its hooks are being called already
            before(part, call.args)
        else:
            self._handles.append(part.register_forward_pre_hook(before))
            self._handles.append(part.register_forward_hook(after))

    def call_ended(self, module, call, output):
        self.finish()
        rows, self._rows = self._rows, None
        if rows and self.wants_shapes:
            text = "; ".join(f"{row['module']} {row['outputs']}" for row in rows[:5])
            self._session.write("forward_pass", {"modules": rows[:ROWS_MAX]}, f"shapes: {text}")

    def finish(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def looked(self, look):
        if self.wants_shapes:
            self._session.write("forward_pass", {"loss": look.loss}, step=look.step)

    def _before(self, name, part, args):
        own = [*part._parameters.values(), *part._buffers.values()]
        own = {str(t.device) for t in own if t is not None}
        if not own or hasattr(part, "_hf_hook") or not self.wants_devices:
            return  # a hook of accelerate moves inputs inside of the forward
        given = {str(t.device) for t in tensors_of(args) if t.ndim > 0}
        if given and not given <= own:
            facts = {"cause": "device", "module": name, "inputs": sorted(given)}
            facts["parameters"] = sorted(own)
            text = f"module {name} lies on {', '.join(sorted(own))},"
            text += f" but its input comes from {', '.join(sorted(given))}"
            self._session.incident("device_placement", f"device {name}", facts, text)

    def _after(self, name, part, args, output):
        if self._rows is not None:
            kinds = [_kind(t) for t in tensors_of(output)]
            outputs = [f"{list(shape)} {dtype} {device}" for shape, dtype, device in kinds]
            row = {"module": name, "class": type(part).__name__, "outputs": outputs}
            self._rows.append(row)

    def _tell_placement(self, module, kind):
        counts = {}
        for parameter in module.parameters():
            device = str(parameter.device)
            counts[device] = counts.get(device, 0) + parameter.numel()
        facts = {"parameters": counts, "inputs": sorted({device for _, _, device in kind})}
        self._session.write("device_placement", facts)


def _kind(tensor):
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), str(tensor.device)


def _inputs_text(kind):
    return "inputs " + ", ".join(f"{list(shape)} {dtype} {device}" for shape, dtype, device in kind)
