"""Goal: TF32 is on in a block and all switches are as before behind it, whichever kind of switch
the program uses. Method: every kind, alone and above each other; reading needs no GPU."""

import warnings

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch
has_new = pytest.mark.skipif(
    not hasattr(torch.backends, "fp32_precision"), reason="since torch 2.9"
)


def switches():
    b = torch.backends
    return [b, b.cudnn, b.cuda.matmul, b.cudnn.conv, b.cudnn.rnn, b.mkldnn, b.mkldnn.matmul]


def read():
    asks = [torch.get_float32_matmul_precision]
    asks += [lambda b=b: b.allow_tf32 for b in (torch.backends.cudnn, torch.backends.cuda.matmul)]
    if hasattr(torch.backends, "fp32_precision"):
        asks += [lambda s=s: s.fp32_precision for s in switches()]
    found = []
    for ask in asks:
        try:
            found.append(ask())
        except RuntimeError:  # the old one contradicts the new ones
            found.append("contradiction")
    return found


@pytest.fixture
def tf32(ks):
    """In a process of its own torch would be as new; here what a test changes is put back."""
    from kinetoscope.tune.tf32_switch import tf32

    assert read()[0] == "highest"
    yield tf32
    if hasattr(torch.backends, "fp32_precision"):
        for switch in switches():
            switch.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True
    if hasattr(torch.backends, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"


def old(name, cudnn=True):
    torch.set_float32_matmul_precision(name)
    torch.backends.cudnn.allow_tf32 = cudnn


def new(**precisions):
    for name, precision in precisions.items():
        owner = torch.backends
        for part in name.split("_"):
            owner = owner if part == "all" else getattr(owner, part)
        owner.fp32_precision = precision


@pytest.mark.parametrize(
    "prepare",
    [
        lambda: None,
        lambda: old("high"),
        lambda: old("medium", False),
        pytest.param(lambda: new(cuda_matmul="tf32"), marks=has_new),
        pytest.param(lambda: new(all="ieee"), marks=has_new),
        pytest.param(lambda: new(all="tf32", cudnn="ieee", cudnn_conv="tf32"), marks=has_new),
    ],
)
@pytest.mark.parametrize("is_on", [True, False])
def test_switches_are_as_before(tf32, prepare, is_on):
    prepare()
    before = read()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError), tf32(is_on):
            if hasattr(torch.backends, "fp32_precision"):
                wanted = "tf32" if is_on else "ieee"
                assert {s.fp32_precision for s in switches()[1:5]} == {wanted}
            else:
                assert torch.backends.cuda.matmul.allow_tf32 == is_on
            raise KeyError
    assert read() == before


@has_new
def test_what_followed_a_general_switch_follows_it_still(tf32):
    def followers():
        found = []
        for precision in ("ieee", "tf32"):
            torch.backends.fp32_precision = precision
            found.append([s.fp32_precision for s in switches()])
        return found

    before = followers()
    for general in ("none", "tf32", "ieee"):
        torch.backends.fp32_precision = general
        with tf32(general != "tf32"):
            pass
    assert followers() == before and before[0][2] == "ieee" and before[1][2] == "tf32"


def test_compilers_may_ask_the_old_switch(tf32):
    """They do so in the block."""
    with tf32(True):
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.backends.cudnn.allow_tf32


def test_torch_without_the_new_switches(tf32, monkeypatch):
    from kinetoscope.tune import tf32_switch

    before = read()
    with tf32_switch._by_old_switches(True):
        assert torch.get_float32_matmul_precision() == "high"
    with tf32_switch._by_old_switches(False):
        assert not torch.backends.cudnn.allow_tf32
    assert read()[:3] == before[:3]
