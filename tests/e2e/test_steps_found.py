"""Goal: steps are found in every kind of program, counted right, and the losses stay the same.

Method: tiny programs of each kind run with the hook and without; the number of steps is known, and
what lies inside a step of the trace is counted.
"""

import os

import pytest
from recorded import run_both, run_plain, run_recorded, write_program

SETUP = """
import torch
torch.manual_seed(3)
def make(size=8):
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
model = make()
def loss_of(batch=4):
    return model(torch.randn(batch, 8)).pow(2).sum()
"""


def steps_of(recorded):
    return recorded.status["steps_seen"], recorded.status["step_source"]


def check_window(recorded, first_step, kept, marker, in_step):
    """The window holds `kept` steps with `in_step` events called `marker` in each."""
    trace = recorded.clean()
    assert trace.steps() == list(range(first_step, first_step + kept))
    assert trace.counts_in_steps(marker) == [in_step] * kept


# ---------------------------------------------------------------- optimizers


def test_accumulated_batches_are_one_step(tmp_path):
    recorded = run_both(
        tmp_path,
        SETUP
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=1)
for number, batch in enumerate(loader, 1):
    loss = model(batch).pow(2).sum()
    loss.backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item().hex())
""",
    )
    assert steps_of(recorded) == (16, "optimizer")
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    check_window(recorded, 4, 3, loader, in_step=4)


def test_accelerate_accumulates(tmp_path):
    recorded = run_both(
        tmp_path,
        """
import torch
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(torch.randn(48, 8), batch_size=1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    with accelerator.accumulate(model):
        loss = model(batch).pow(2).sum()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item().hex())
""",
    )
    assert steps_of(recorded) == (12, "optimizer")
    check_window(recorded, 4, 3, "Optimizer.step#AdamW.step", in_step=1)


GAN = """
torch.manual_seed(5)
generator, critic = make(), torch.nn.Linear(2, 1)
slow = torch.optim.Adam(generator.parameters(), lr=0.01)
fast = torch.optim.SGD(critic.parameters(), lr=0.01)
def critic_step():
    fast.zero_grad()
    critic(generator(torch.randn(4, 8)).detach()).sum().backward()
    fast.step()
def generator_step():
    slow.zero_grad()
    loss = critic(generator(torch.randn(4, 8))).sum()
    loss.backward()
    slow.step()
    print(loss.item().hex())
for _ in range({cycles}):
    {order}
"""


@pytest.mark.parametrize(
    ("order", "critics", "clock"),
    [
        ("critic_step(); generator_step()", 1, "Adam"),
        ("generator_step(); critic_step()", 1, "SGD"),
        ("[critic_step() for _ in range(5)]; generator_step()", 5, "Adam"),
        ("generator_step(); [critic_step() for _ in range(5)]", 5, "Adam"),
    ],
)
def test_of_several_optimizers_the_rarest_counts(tmp_path, order, critics, clock):
    text = SETUP + GAN.format(cycles=14, order=order)
    recorded = run_both(tmp_path, text)
    assert steps_of(recorded) == (14, "optimizer")
    trace = recorded.clean()
    assert len(trace.steps()) == 3
    assert trace.counts_in_steps("Optimizer.step#SGD.step") == [critics] * 3
    assert trace.counts_in_steps("Optimizer.step#Adam.step") == [1] * 3
    last = max(
        (e for e in trace.events if e["name"].startswith("Optimizer.step#")),
        key=lambda e: trace.span(e),
    )
    assert clock in last["name"]
    assert recorded.status["explanation"] is None


def test_step_that_the_scaler_skips_is_a_step(tmp_path):
    recorded = run_both(
        tmp_path,
        SETUP
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for number in range(12):
    optimizer.zero_grad()
    loss = loss_of() * (float("inf") if number == 5 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item().hex(), scaler.get_scale())
""",
    )
    assert steps_of(recorded) == (12, "optimizer")
    trace = recorded.clean()
    assert trace.steps() == [4, 5, 6]
    assert trace.counts_in_steps("Optimizer.step#SGD.step") == [1, 0, 1]


def test_hugging_face_trainer(tmp_path):
    recorded = run_both(
        tmp_path,
        """
import os, sys
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer
from transformers import TrainingArguments, set_seed
set_seed(4)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
tokens = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (48, 8))]
class Told(Trainer):
    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        print(loss.item().hex())
        return loss
arguments = TrainingArguments("hf", per_device_train_batch_size=2, max_steps=12, use_cpu=True,
    gradient_accumulation_steps=2, report_to=[], save_strategy="no", disable_tqdm=True,
    logging_strategy="no", dataloader_num_workers=0)
trainer = Told(model=GPT2LMHeadModel(config), args=arguments, train_dataset=tokens)
trainer.remove_callback(PrinterCallback)  # it prints how long all took
result = trainer.train()
print(result.global_step, result.training_loss.hex())
""",
    )
    assert steps_of(recorded) == (12, "optimizer")
    check_window(recorded, 4, 3, "Optimizer.step#AdamW.step", in_step=1)


# ---------------------------------------------------------------- marks


def test_marked_steps_have_authority(tmp_path):
    """An optimizer steps twice in each, and would count otherwise."""
    recorded = run_both(
        tmp_path,
        SETUP
        + f"""
import sys
sys.path.append({str(os.path.abspath("python"))!r})
import kinetoscope
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(10):
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
    print(loss.item().hex())
    kinetoscope.step()
""",
    )
    assert steps_of(recorded) == (10, "mark")
    assert recorded.clean().counts_in_steps("Optimizer.step#SGD.step") == [2, 2, 2]


def test_named_mark(tmp_path):
    recorded = run_both(
        tmp_path,
        SETUP
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(10):
    with torch.profiler.record_function("my iteration"):
        for _ in range(3):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
    print(loss.item().hex())
""",
        step_mark="my iteration",
    )
    assert steps_of(recorded) == (10, "mark")
    assert recorded.clean().counts_in_steps("my iteration") == [1, 1, 1]


def test_named_mark_that_never_comes(tmp_path):
    program = write_program(tmp_path, SETUP + "for _ in range(9): loss_of()")
    recorded = run_recorded(tmp_path, program, step_mark="no such")
    assert 'no record_function named "no such" ended' in recorded.status["explanation"]
    assert steps_of(recorded) == (0, None)


# ---------------------------------------------------------------- programs without an optimizer


def test_loader_gives_the_steps(tmp_path):
    """No batch counts twice, no epoch end counts, and a pause between epochs is no step's time."""
    recorded = run_both(
        tmp_path,
        SETUP
        + """
import time
loader = torch.utils.data.DataLoader(torch.randn(24, 8), batch_size=3, shuffle=True)
for epoch in range(3):
    for batch in loader:
        print(model(batch).sum().item().hex())
    time.sleep(0.5)
""",
        steps="9:1:3",
    )
    assert steps_of(recorded) == (24, "loader")
    assert max(recorded.status["unprofiled_step_ns"]) < 0.5e9
    trace = recorded.clean()
    assert trace.steps() == [10, 11, 12]
    assert trace.counts_in_steps("aten::linear") == [2, 2, 2]


def test_loader_alone(tmp_path):
    recorded = run_both(
        tmp_path,
        """
import torch
for batch in torch.utils.data.DataLoader(torch.arange(30), batch_size=2):
    print(batch)
""",
    )
    assert steps_of(recorded) == (15, "loader")
    assert len(recorded.clean().steps()) == 3


def test_forward_loop(tmp_path):
    """The loss beside the model is no step, and a module inside another is none."""
    recorded = run_both(
        tmp_path,
        SETUP
        + """
loss_function = torch.nn.CrossEntropyLoss()
with torch.no_grad():
    for _ in range(20):
        out = model(torch.randn(256, 8))
        print(loss_function(out, torch.zeros(256, dtype=torch.long)).item().hex())
print(torch.nn.modules.module._has_any_global_hook())
""",
    )
    assert steps_of(recorded) == (20, "inference")
    assert recorded.clean().counts_in_steps("aten::linear") == [2, 2, 2]


def test_many_short_calls_are_kept(tmp_path):
    """Calls of less than 3 ms: 64 fit into 0.2 s."""
    program = write_program(
        tmp_path,
        SETUP
        + """
with torch.inference_mode():
    for _ in range(300):
        model(torch.randn(1, 8))
""",
    )
    recorded = run_recorded(tmp_path, program, steps="auto")
    assert steps_of(recorded) == (300, "inference")
    assert len(recorded.clean().steps()) == recorded.status["window"]["active"] == 64


def test_long_calls_are_few(tmp_path):
    program = write_program(
        tmp_path,
        SETUP
        + """
import time
for _ in range(30):
    model(torch.randn(1, 8))
    time.sleep(0.02)
""",
    )
    recorded = run_recorded(tmp_path, program, steps="auto")
    assert 6 <= len(recorded.clean().steps()) <= 10  # of 0.2 s


def test_generate_steps_by_token(tmp_path):
    recorded = run_both(
        tmp_path,
        """
import os
os.environ.update(HF_HUB_OFFLINE="1")
import torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(4)
config = GPT2Config(vocab_size=64, n_positions=64, n_embd=16, n_layer=1, n_head=2, eos_token_id=63)
model = GPT2LMHeadModel(config).eval()
for _ in range(2):
    out = model.generate(torch.randint(0, 63, (1, 4)), max_new_tokens=10, min_new_tokens=10,
                         do_sample=True, pad_token_id=0)
    print(out)
""",
    )
    assert steps_of(recorded) == (20, "inference")


def test_evaluation_before_training_is_forgotten(tmp_path):
    """A window is open on the model's calls when the optimizer comes: it is given up."""
    recorded = run_both(
        tmp_path,
        SETUP
        + """
with torch.no_grad():
    for _ in range(5):
        print(loss_of().item().hex())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(12):
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
""",
    )
    assert steps_of(recorded) == (12, "optimizer")
    (name,) = recorded.status["traces"]
    check_window(recorded, 4, 3, "Optimizer.step#SGD.step", in_step=1)
    assert recorded.status["explanation"] is None


# ---------------------------------------------------------------- torch.compile, copies, pickles


def test_compiled_programs_are_compiled_as_without_us(tmp_path):
    """As many frames and graph breaks, in a function, a module, in place, and of used classes."""
    recorded = run_both(
        tmp_path,
        SETUP
        + """
import copy, pickle
import torch._dynamo
from torch._dynamo.utils import counters
torch.no_grad().__enter__()
def show(what):
    print(what, sorted(counters["stats"].items()), dict(counters["graph_break"]))
function = torch.compile(lambda x: model(x).sum(), backend="eager")
model.eval()
print(model(torch.ones(2, 8)).sum().item().hex())
whole = torch.compile(model, backend="eager")
for _ in range(4):
    print(whole(torch.ones(2, 8)).sum().item().hex())
show("module")
for _ in range(4):
    print(function(torch.ones(2, 8)).item().hex())
show("function")
outer = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.nn.Linear(8, 8))
outer.compile(backend="eager")
for _ in range(4):
    print(outer(torch.ones(2, 8)).sum().item().hex())
show("in place")
traced = torch.fx.symbolic_trace(outer[0])
print([str(node.target) for node in traced.graph.nodes])
scripted = torch.jit.script(make().eval())
print(scripted(torch.zeros(1, 8)).shape, copy.deepcopy(model)(torch.zeros(1, 8)).shape)
print(b"kinetoscope" in pickle.dumps(model), torch.nn.modules.module._has_any_global_hook())
""",
    )
    assert recorded.status["state"] != "off", recorded.status


def test_modules_are_as_they_were_in_a_training_program(tmp_path):
    program = write_program(
        tmp_path,
        SETUP
        + """
call = torch.nn.Module.__call__
compile_before = torch.compile
loss_of()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hooked = [c for c in vars(torch.nn).values() if isinstance(c, type) and "__call__" in vars(c)]
print(hooked, call is torch.nn.Module.__call__, torch.compile.__module__, compile_before.__module__)
print(torch.nn.modules.module._has_any_global_hook())
""",
    )
    recorded = run_recorded(tmp_path, program)
    assert recorded.stdout == run_plain(tmp_path, program).stdout
