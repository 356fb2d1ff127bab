"""Goal: one walk changes tensors in whatever programs pass around, keeps classes, and leaves its
argument alone. Method: one of each kind of container."""

import collections
import dataclasses
import types

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


@dataclasses.dataclass(frozen=True)
class Record:
    values: torch.Tensor
    above: object = None


Pair = collections.namedtuple("Pair", "first second")


class Twice(Pair):
    def __new__(cls, value):
        return super().__new__(cls, value, value)


class Tagged(list):
    def __init__(self, tag, items=()):
        super().__init__(items)
        self.tag = tag


class Table(dict):
    """As those of transformers: values are attributes, too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        setattr(self, key, value)


def table():
    made = Table()
    made["logits"] = torch.zeros(2)
    return made


@pytest.fixture
def tree(ks):
    from kinetoscope.torch import tensor_tree

    return tensor_tree


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2),
        lambda: (torch.zeros(2), [torch.zeros(1), "text"], {"a": torch.zeros(1)}, 3, None),
        lambda: Pair(torch.zeros(2), 1),
        lambda: Twice(torch.zeros(2)),
        lambda: Tagged("tag", [torch.zeros(2)]),
        lambda: collections.OrderedDict(a=torch.zeros(2)),
        lambda: collections.defaultdict(list, a=torch.zeros(2)),
        lambda: collections.UserDict(a=torch.zeros(2)),
        table,
        lambda: Record(torch.zeros(2)),
        lambda: torch.max(torch.zeros(2, 2), 1),
        lambda: torch.nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)]),
    ],
)
def test_containers_are_made_anew_of_their_class(tree, make):
    value = make()
    before = [tensor.clone() for tensor in tree.tensors_of(value)]
    made = tree.mapped(lambda tensor: tensor + 1, value)
    assert type(made) is type(value) and len(before) > 0
    after = list(tree.tensors_of(value))
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))
    got = list(tree.tensors_of(made))
    assert all(torch.equal(a, b + 1) for a, b in zip(got, before, strict=True))


def test_what_is_beside_tensors_stays(tree):
    made = tree.mapped(lambda tensor: tensor + 1, Tagged("tag", [torch.zeros(1), torch.Size([2])]))
    assert made.tag == "tag" and made[1] == torch.Size([2]) and type(made[1]) is torch.Size
    made = tree.mapped(lambda tensor: tensor + 1, table())
    assert torch.equal(made.logits, torch.ones(2)) and made.logits is made["logits"]
    read_only = types.MappingProxyType({"a": torch.zeros(1)})
    assert tree.mapped(lambda tensor: tensor + 1, read_only) == {"a": torch.ones(1)}
    modules = torch.nn.ModuleDict({"a": torch.nn.Linear(1, 1)})
    assert tree.mapped(lambda tensor: tensor + 1, modules) is modules


def test_records_that_point_at_each_other_end(tree):
    inner = Record(torch.zeros(1))
    outer = Record(torch.zeros(2), [inner])
    object.__setattr__(inner, "above", outer)
    assert [len(tensor) for tensor in tree.tensors_of(outer)] == [2, 1]
    assert torch.equal(tree.mapped(lambda t: t + 1, outer).above[0].values, torch.ones(1))


def test_what_moves_itself_does(tree):
    class Batch:
        moved = None

        def to(self, device):
            self.moved = device
            return self

    batch = Batch()
    assert tree.move((batch, torch.zeros(1)), "cpu")[0] is batch and batch.moved == "cpu"
    made = tree.move(Pair(torch.zeros(1), Twice(torch.zeros(1))), "meta", True)
    assert type(made.second) is Twice and made.second.first.device.type == "meta"
