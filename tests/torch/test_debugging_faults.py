"""Goal: twelve faults of trainings are named with their first cause and place; clean twins warn of
nothing. Method: each training is one function that plants its fault, or does not; what is compared
are the warnings of the logger. On the device of KSCOPE_TEST_DEVICE: on a GPU, too, where causes are
named when each step is waited for."""

import contextlib
import logging
import os

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
nn, F = torch.nn, torch.nn.functional
DEVICE = torch.device(os.environ.get("KSCOPE_TEST_DEVICE", "cpu"))
IS_GPU = DEVICE.type == "cuda"


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.found = []

    def emit(self, record):
        self.found.append(record)


@pytest.fixture
def debug(ks):
    import kinetoscope.debug as package

    package.disable_debugging()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of a few numbers only wait for each other
    yield package
    torch.set_num_threads(threads)
    package.disable_debugging()


def warnings_of(debug, train, planted, **options):
    """Warnings of a training, as [(kind, facts, text)], in their order."""
    torch.manual_seed(0)
    handler = Warnings()
    logger = logging.getLogger("kinetoscope.debug")
    logger.addHandler(handler)
    names = [n for n in debug.SWITCHES if n.startswith("debug_")]
    try:
        options = {"wait": IS_GPU, **options}
        train(planted, lambda model, optimizer: debug.enable_debugging(names, model, **options))
    finally:
        debug.disable_debugging()
        logger.removeHandler(handler)
    return [(r.kind, r.facts, r.getMessage()) for r in handler.found]


def classify(model, optimizer, steps=14, features=8, classes=3, each=None, make_loss=None):
    """An ordinary loop: random inputs, a label that can be learned."""
    make_loss = make_loss or F.cross_entropy
    for step in range(1, steps + 1):
        x = torch.randn(16, features).to(DEVICE)
        if each is not None:
            x = each(step, x)
        optimizer.zero_grad()
        loss = make_loss(model(x), x.detach()[:, :classes].nan_to_num().argmax(1))
        loss.backward()
        optimizer.step()


def layers(*middle):
    return nn.Sequential(nn.Linear(8, 16), *middle, nn.Linear(16, 3)).to(DEVICE)


def adam(model, lr=1e-3):
    return torch.optim.Adam(model.parameters(), lr)


# -------------------------------------------------------------------- the faults


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.gain = nn.Linear(8, 8), nn.Linear(8, 8), 1.0

    def forward(self, x):
        query, key = self.query(x).half() * self.gain, self.key(x).half() * self.gain
        scores = query @ key.mT
        return scores.float().softmax(-1) @ x


def half_attention(planted, enable):
    model = nn.Sequential(nn.Linear(8, 8), Attention(), nn.Linear(8, 3)).to(DEVICE)
    optimizer = adam(model)
    enable(model, optimizer)

    def grow(step, x):
        model[1].gain = 1000.0 if planted and step == 12 else 1.0
        return x

    classify(model, optimizer, each=grow)


def log_of_zero(planted, enable):
    model = layers(nn.Tanh())
    optimizer = adam(model)
    enable(model, optimizer)
    floor = 0.0 if planted else 1e-6
    step = 0

    def loss(scores, target):
        nonlocal step
        step += 1
        scores = scores * (1e4 if step == 12 else 1)
        right = scores.softmax(1).gather(1, target[:, None])
        return -(right + floor).log().mean()

    classify(model, optimizer, make_loss=loss)


class Standardize(nn.Module):
    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, x):
        return (x - x.mean(0)) / (x.std(0) + self.floor)


def zero_variance(planted, enable):
    floor = 0.0 if planted else 1e-5
    model = nn.Sequential(nn.Linear(8, 8), Standardize(floor), nn.Linear(8, 3)).to(DEVICE)
    optimizer = adam(model)
    enable(model, optimizer)
    classify(model, optimizer, each=lambda step, x: torch.ones_like(x) if step == 12 else x)


class Samples(torch.utils.data.Dataset):
    def __init__(self, bad=None):
        self.x = torch.randn(64, 8, generator=torch.Generator().manual_seed(3))
        self.y = self.x[:, :3].argmax(1)
        if bad == "label":
            self.y[37] = 7
        elif bad == "sample":
            self.x[37, 2] = float("nan")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def over_samples(bad):
    def train(planted, enable):
        model = layers(nn.Tanh())
        optimizer = adam(model)
        enable(model, optimizer)
        loader = torch.utils.data.DataLoader(Samples(bad if planted else None), 8, shuffle=True)
        with contextlib.suppress(IndexError):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x.to(DEVICE)), y.to(DEVICE)).backward()
                optimizer.step()

    return train


def exploding_rate(planted, enable):
    model = layers(nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 3.0 if planted else 0.9)
    enable(model, optimizer)

    def turn(step, x):
        if step > 1:
            schedule.step()
        return x

    classify(model, optimizer, steps=40, each=turn)


class Encoded(nn.Module):
    def __init__(self, is_cut):
        super().__init__()
        self.encoder, self.head, self.is_cut = nn.Linear(8, 8), nn.Linear(8, 3), is_cut

    def forward(self, x):
        hidden = self.encoder(x).tanh()
        return self.head(hidden.detach() if self.is_cut else hidden)


def detached_graph(planted, enable):
    model = Encoded(planted).to(DEVICE)
    optimizer = adam(model)
    enable(model, optimizer)
    classify(model, optimizer)


def frozen_layer(planted, enable):
    model = layers(nn.Tanh())
    model[0].weight.requires_grad_(not planted)
    optimizer = adam(model)
    enable(model, optimizer)
    classify(model, optimizer)


def wrong_device(planted, enable):
    model = layers(nn.Tanh())
    optimizer = adam(model)
    if planted:
        model[2].to("meta")
    enable(model, optimizer)
    with contextlib.suppress(RuntimeError, NotImplementedError):
        classify(model, optimizer)


def dead_rectifier(planted, enable):
    model = layers(nn.ReLU())
    with torch.no_grad():
        model[0].bias.fill_(-50.0 if planted else 0.0)
    optimizer = adam(model)
    enable(model, optimizer)
    classify(model, optimizer)


def scale_collapse(planted, enable):
    model = layers(nn.Tanh())
    optimizer = adam(model)
    scaler = torch.amp.GradScaler(DEVICE.type)
    enable(model, optimizer)
    if planted:
        model[2].weight.register_hook(lambda grad: grad * (float("inf") if step > 3 else 1))
    for step in range(1, 16):
        x = torch.randn(16, 8).to(DEVICE)
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), x[:, :3].argmax(1))).backward()
        if step == 2:  # as in the search for a scale, which is no fault
            model[0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()


def resumed_state(planted, enable):
    model = layers(nn.Tanh())
    optimizer = adam(model)
    classify(model, optimizer, steps=3)
    state = optimizer.state_dict()
    if planted:
        state["state"][2]["exp_avg_sq"][1, 5] = float("nan")
    again = adam(model)
    enable(model, again)
    again.load_state_dict(state)
    classify(model, again, steps=5)


FAULTS = {
    "half_attention": (
        half_attention,
        "not_finite",
        {"cause": "forward", "module": "1", "operator": "mm", "dtype": "float16", "step": 12},
    ),
    "log_of_zero": (log_of_zero, "not_finite", {"cause": "loss", "step": 12}),
    "zero_variance": (
        zero_variance,
        "not_finite",
        {"cause": "forward", "module": "1", "operator": "div", "nan": 128, "last_good_step": 11},
    ),
    "bad_label": (
        over_samples("label"),
        "data_loading",
        {"cause": "label", "index": 37, "value": 7, "classes": 3},
    ),
    "exploding_rate": (exploding_rate, "spike", {"cause": "learning_rate"}),
    "detached_graph": (
        detached_graph,
        "graph",
        {"cause": "detached", "parameters": ["encoder.weight", "encoder.bias"]},
    ),
    "frozen_layer": (frozen_layer, "graph", {"cause": "frozen", "parameters": ["0.weight"]}),
    "wrong_device": (
        wrong_device,
        "device_placement",
        {"cause": "device", "module": "2", "parameters": ["meta"], "inputs": [str(DEVICE)]},
    ),
    "dead_rectifier": (
        dead_rectifier,
        "gradient_flow",
        {"cause": "dead_relu", "module": "1", "dead": 16, "share": 1.0},
    ),
    "nan_in_one_sample": (
        over_samples("sample"),
        "data_loading",
        {"cause": "sample", "index": 37, "value": "nan", "count": 1},
    ),
    "scale_collapse": (
        scale_collapse,
        "mixed_precision",
        {"cause": "loss_scale", "parameter": "2.weight", "skips_in_a_row": 5},
    ),
    "resumed_state": (
        resumed_state,
        "optimizer_state",
        {"cause": "optimizer_state", "parameter": "2.weight", "state": "exp_avg_sq", "nan": 1},
    ),
}


# There a label that no class has ends the whole process, by an assertion on the device.
ON_DEVICE = [name for name in FAULTS if not (IS_GPU and name == "bad_label")]


@pytest.mark.parametrize("name", ON_DEVICE)
def test_fault_is_named_and_its_twin_is_not(debug, name):
    train, kind, expected = FAULTS[name]
    assert warnings_of(debug, train, planted=False) == []
    found = warnings_of(debug, train, planted=True)
    assert found, "nothing was found"
    first = [facts for found_kind, facts, _ in found if found_kind == kind][:1]
    assert first and {key: first[0].get(key) for key in expected} == expected, found
    if name != "dead_rectifier":  # gradients that are zero are told first: they are seen sooner
        assert found[0][0] == kind, found


@pytest.mark.parametrize("name", ["half_attention", "zero_variance"])
def test_line_of_the_program_is_named(debug, name):
    train, _, _ = FAULTS[name]
    (_, facts, text), *_ = warnings_of(debug, train, planted=True)
    file, _, line = facts["line"].partition(":")
    assert file == "test_debugging_faults.py" and facts["line"] in text
    with open(__file__, encoding="utf-8") as source:
        assert ("query @ key" if name == "half_attention" else ".std(0)") in list(source)[
            int(line) - 1
        ]


def test_loss_names_its_operators(debug):
    ((_, facts, _),) = warnings_of(debug, log_of_zero, planted=True)
    assert "Log" in facts["operators"]
