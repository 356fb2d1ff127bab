"""kept_trainer: a transformers.Trainer may train in the block, and is as before behind it."""

import collections
import contextlib
import copy
import os
import shutil
import tempfile

import torch

from kinetoscope.torch.state_guard import kept_state

_CONTAINERS = (list, dict, set, collections.OrderedDict, collections.deque)


@contextlib.contextmanager
def kept_trainer(trainer):
    """What is kept: the model (weights, gradients, modes, hooks, configuration), the optimizer and
    the scheduler, whoever made them, the state, the control, the callbacks' own attributes, random
    states. What it writes goes to a folder of its own beside output_dir, so that no checkpoint
    stays and none of the program's is rotated away. Nothing is pushed."""
    with contextlib.ExitStack() as stack:
        # What is entered first is put back last: values go into the objects that were there.
        stack.enter_context(kept_state(trainer.model, _innermost(trainer.optimizer, "optimizer")))
        stack.callback(_keep_scaler(trainer))
        for thing in _things_of(trainer):
            stack.callback(_keep_attributes(thing))
        trainer.args = _arguments_for(trainer.args, stack.enter_context(_folder(trainer.args)))
        yield


def _innermost(thing, name):
    """accelerate wraps optimizers and schedulers."""
    while getattr(thing, name, None) is not None:
        thing = getattr(thing, name)
    return thing


def _things_of(trainer):
    """All that a training changes the attributes of."""
    model, handler = trainer.model, trainer.callback_handler
    yield trainer
    yield from (trainer.state, trainer.control, handler, *handler.callbacks)
    yield from model.modules()
    others = (getattr(model, name, None) for name in ("config", "generation_config"))
    others = (*others, getattr(trainer, "accelerator", None))
    yield from (thing for thing in others if hasattr(thing, "__dict__"))
    yield from _with_inner(trainer.optimizer, "optimizer")
    yield from _with_inner(trainer.lr_scheduler, "scheduler")


def _with_inner(thing, name):
    if thing is None:
        return
    yield thing
    yield from _with_inner(getattr(thing, name, None), name)
    for inner in getattr(thing, "_schedulers", ()):  # of a chain or a sequence
        yield from _with_inner(inner, name)


def _keep_attributes(thing):
    """Its attributes, and what those hold that are plain containers."""
    before = dict(vars(thing))
    held = [(v, copy.copy(v)) for v in before.values() if type(v) in _CONTAINERS]

    def restore():
        vars(thing).clear()
        vars(thing).update(before)
        for container, kept in held:
            container.clear()
            (container.extend if hasattr(container, "extend") else container.update)(kept)

    return restore


def _keep_scaler(trainer):
    """The scale of float16 is a tensor that is changed in place."""
    scaler = getattr(getattr(trainer, "accelerator", None), "scaler", None)
    if scaler is None:
        return lambda: None
    state = copy.deepcopy(scaler.state_dict())
    return lambda: scaler.load_state_dict(state)


@contextlib.contextmanager
def _folder(args):
    """An empty folder on the disk of output_dir, the same for all ranks; it goes with the block."""
    shared = torch.distributed if torch.distributed.is_available() else None
    is_shared = shared is not None and shared.is_initialized()
    is_first = not is_shared or shared.get_rank() == 0
    path = [_make_folder(args.output_dir) if is_first else None]
    try:
        if is_shared:
            shared.broadcast_object_list(path)
        yield path[0]
    finally:
        if is_first:
            shutil.rmtree(path[0], ignore_errors=True)


def _make_folder(output_dir):
    beside = os.path.dirname(os.path.abspath(output_dir))
    try:
        return tempfile.mkdtemp(prefix=".kinetoscope-", dir=beside)
    except OSError:  # it is not there, or not ours to write to
        return tempfile.mkdtemp(prefix="kinetoscope-")


def _arguments_for(args, folder):
    """A copy, for the program has the one that was given."""
    changed = copy.copy(args)
    values = vars(changed)  # some versions freeze their arguments
    values["output_dir"] = folder
    values["push_to_hub"] = False
    if values.get("logging_dir") is not None:
        values["logging_dir"] = os.path.join(folder, "logs")
    return changed
