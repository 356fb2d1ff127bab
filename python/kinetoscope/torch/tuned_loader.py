"""Arguments of DataLoaders as the settings want them, and what loaders were made with.

Every DataLoader of the script is made with the tuned arguments. A data set that draws random
numbers gives other samples when other processes draw them: whether it does is looked at in the
first batches, in workers too, because then losses cannot be compared number by number.
"""

import functools
import inspect
import mmap
import random
import sys
from importlib import import_module

FETCHES_WATCHED = 3  # of each process
ARGUMENTS = {"workers": "num_workers", "prefetch": "prefetch_factor", "batch": "batch_size"}
WORKERS_SETTINGS = {"workers", "prefetch", "persistent"}
ITERABLE_KEEPS = "an IterableDataset hands its data out once in each worker"
SWITCHES = {"persistent": "persistent_workers", "pin": "pin_memory"}


class LoaderTuner:
    def __init__(self, torch, settings, refuse):
        self._torch = torch
        self._settings = settings
        self._refuse = refuse
        self._made = {}  # id of the data set -> arguments that the script gave, by name
        self._asked = {}  # id of the data set -> batches asked for
        self._untaken = {}  # setting -> why a loader could not have it, and no other one had it
        self._draws = None  # a byte that workers share with us: the data set draws random numbers

    def install(self):
        loader_class = import_module("torch.utils.data.dataloader").DataLoader
        made = loader_class.__init__
        signature = inspect.signature(made)

        @functools.wraps(made)
        def init(loader, *args, **kwargs):
            try:
                bound = signature.bind(loader, *args, **kwargs)
            except TypeError:
                return made(loader, *args, **kwargs)  # and it says what is wrong
            self._note(bound.arguments)
            self._tune(bound.arguments)
            return made(*bound.args, **bound.kwargs)

        loader_class.__init__ = init
        if self._settings.get("pin") == "1":
            _copy_without_waiting(self._torch)

    def watch_random(self):
        """Fork hands the byte on; workers that are spawned are not looked at."""
        self._draws = mmap.mmap(-1, 1)
        fetcher_class = import_module("torch.utils.data._utils.fetch")._MapDatasetFetcher
        fetcher_class.fetch = _watched_fetch(self._torch, fetcher_class.fetch, self._draws)

    def asked(self, key):
        self._asked[key] = self._asked.get(key, 0) + 1

    def main_key(self):
        """Of the loader that gave most batches; None before any did."""
        return max(self._asked, key=self._asked.get, default=None)

    def facts(self):
        """Of the loader that gave most batches."""
        if not self._asked:
            return {"loaders": 0}
        given = self._made.get(self.main_key(), {})
        return {
            "loaders": len(self._asked),
            "workers": given.get("num_workers", 0),
            "persistent": int(bool(given.get("persistent_workers", False))),
            "prefetch": given.get("prefetch_factor") or 2,
            "pin": int(bool(given.get("pin_memory", False))),
            "batch": given.get("batch_size") or 0,
            "iterable": int(given.get("is_iterable", False)),
            "draws": int(self._draws is not None and self._draws[0] != 0),
        }

    def _note_taken(self, name, is_taken):
        if is_taken:
            self._untaken[name] = None
        else:
            self._untaken.setdefault(name, ITERABLE_KEEPS)

    def refuse_untaken(self):
        """Tells of settings that no loader could have."""
        for name, why in self._untaken.items():
            if why is not None:
                self._refuse(name, why)

    def _note(self, arguments):
        dataset = arguments.get("dataset")
        given = {k: v for k, v in arguments.items() if isinstance(v, int | bool | type(None))}
        given["is_iterable"] = self._is_iterable(dataset)
        self._made[id(dataset)] = given

    def _is_iterable(self, dataset):
        return isinstance(dataset, self._torch.utils.data.IterableDataset)

    def _tune(self, arguments):
        """`arguments` are changed in place; what must go with a value goes with it."""
        settings = self._settings
        if self._is_iterable(arguments.get("dataset")):
            settings = {k: v for k, v in settings.items() if k not in WORKERS_SETTINGS}
        for name in WORKERS_SETTINGS & self._settings.keys():
            self._note_taken(name, name in settings)
        for name, argument in ARGUMENTS.items():
            if name in settings and not (name == "batch" and "batch_sampler" in arguments):
                arguments[argument] = int(settings[name])
        for name, argument in SWITCHES.items():
            if name in settings:
                arguments[argument] = settings[name] == "1"
        if arguments.get("num_workers", 0) == 0:
            for argument in ("prefetch_factor", "persistent_workers", "timeout"):
                arguments.pop(argument, None)
            arguments.pop("multiprocessing_context", None)


def _watched_fetch(torch, fetch, draws):
    left = [FETCHES_WATCHED]

    @functools.wraps(fetch)
    def watched(fetcher, index):
        if left[0] <= 0:
            return fetch(fetcher, index)
        left[0] -= 1
        before = _random_state(torch)
        batch = fetch(fetcher, index)
        if _random_state(torch) != before:
            draws[0] = 1
        return batch

    return watched


def _random_state(torch):
    numpy = sys.modules.get("numpy")
    of_numpy = None
    if numpy is not None:
        of_numpy = tuple(str(part) for part in numpy.random.get_state(legacy=True)[1:4])
        of_numpy += (numpy.random.get_state(legacy=True)[1].tobytes(),)
    return random.getstate(), torch.get_rng_state().numpy().tobytes(), of_numpy


def _copy_without_waiting(torch):
    """Copies of pinned tensors to a GPU go on while the program does; of others they cannot."""

    def is_gpu(value):
        if isinstance(value, torch.device):
            return value.type == "cuda"
        return isinstance(value, str) and value.startswith("cuda")

    to, cuda = torch.Tensor.to, torch.Tensor.cuda

    @functools.wraps(to)
    def tuned_to(tensor, *args, **kwargs):
        target = args[0] if args else kwargs.get("device")
        is_free = len(args) <= 1 and "non_blocking" not in kwargs
        if is_free and is_gpu(target) and tensor.device.type == "cpu" and tensor.is_pinned():
            kwargs["non_blocking"] = True
        return to(tensor, *args, **kwargs)

    @functools.wraps(cuda)
    def tuned_cuda(tensor, *args, **kwargs):
        is_free = len(args) <= 1 and "non_blocking" not in kwargs
        if is_free and tensor.device.type == "cpu" and tensor.is_pinned():
            kwargs["non_blocking"] = True
        return cuda(tensor, *args, **kwargs)

    torch.Tensor.to = tuned_to
    torch.Tensor.cuda = tuned_cuda
