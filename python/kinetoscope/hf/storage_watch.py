"""StorageWatch: tells a MemoryCurve of each storage that tensors of a block get, and of its end."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageWatch(TorchDispatchMode):
    """In the block every storage that an operator makes is a piece of the curve, until it is freed.

    `kind`: the number of the kind that new pieces get; may be set at any time. Storages are told
    apart by themselves, so views cost nothing, and what was there before is no piece unless see()
    says so. What a kernel takes and gives back inside of one operator is not seen, nor what runs
    inside of compiled code.
    """

    def __init__(self, curve, kind):
        super().__init__()
        self.kind = kind
        self._curve = curve
        self._pieces = {}  # id of a storage -> [its kind, bytes, weak reference]

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                self._pass_over(leaf)
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf, self.kind)
        return result

    def see(self, tensor, kind):
        """The tensor's storage is a piece of this kind, if it is none yet."""
        storage = _storage_of(tensor)
        if storage is None or id(storage) in self._pieces:
            return
        self._keep(storage, kind, storage.nbytes())

    def _pass_over(self, tensor):
        """A view of it, which an operator may give, is nothing new."""
        storage = _storage_of(tensor)
        if storage is not None and id(storage) not in self._pieces:
            self._keep(storage, self.kind, 0)

    def _keep(self, storage, kind, size):
        key = id(storage)
        self._pieces[key] = [kind, size, weakref.ref(storage, lambda _: self._forget(key))]
        self._curve.change(kind, size)

    def set_kind(self, tensor, kind):
        """The tensor's storage is of this kind from now on."""
        storage = _storage_of(tensor)
        piece = self._pieces.get(id(storage)) if storage is not None else None
        if piece is not None and piece[0] != kind:
            self._curve.move(piece[0], kind, piece[1])
            piece[0] = kind

    def set_kind_of_all(self, old, kind):
        """What is of kind `old` is of another one from now on."""
        for piece in list(self._pieces.values()):
            if piece[0] == old:
                self._curve.move(old, kind, piece[1])
                piece[0] = kind

    def _forget(self, key):
        kind, size, _ = self._pieces.pop(key)
        self._curve.change(kind, -size)


def _storage_of(tensor):
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse, or of another library
        return None
