"""Goal: ranks, children and workers each have files of their own, and none disturbs another.

Method: small jobs of several processes, started as people start them, with the hook and without.
"""

import sys
from pathlib import Path

import pytest
from recorded import FRESH, WARM, finish, run_both, run_recorded, start_plain, write_program

BIN = Path(sys.executable).parent

DDP = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(3)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
losses = []
for number in range(24):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).pow(2).sum()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
open(f"losses.{dist.get_rank()}", "a").write(" ".join(losses) + "\\n")
dist.barrier()  # gloo may abort a rank whose peer is gone
dist.destroy_process_group()
"""


def run_beside(folder, words, plain_words, executable):
    """The recorded run, and at the same time one without us."""
    plain = start_plain(folder, *plain_words, executable=executable)
    recorded = run_recorded(folder, *words, executable=executable)
    return recorded, finish(plain)


def losses(folder):
    """Per rank, the lines of the runs so far; the programs only ever append."""
    return [path.read_text().splitlines() for path in sorted(folder.glob("losses.*"))]


def check_ranks(recorded, ranks, steps, first_step=None):
    workers = [status for status in recorded.statuses if status["steps_seen"] > 0]
    assert [status["rank"] for status in workers] == ranks
    assert {status["steps_seen"] for status in workers} == {steps}
    assert {status["explanation"] for status in workers} == {None}
    firsts = [recorded._trace(status["traces"][0]).steps()[0] for status in workers]
    assert len(set(firsts)) == 1
    assert first_step is None or firsts[0] == first_step
    for status in workers:
        trace = recorded._trace(status["traces"][0])
        assert (trace.about["rank"], trace.about["pid"]) == (status["rank"], status["pid"])
        assert recorded._trace(status["stack_traces"][0]).about["rank"] == status["rank"]
    return workers


def test_torchrun(tmp_path):
    program = write_program(tmp_path, DDP)
    words = ("--nproc_per_node=2", "--master_port=29611", program)
    torchrun = (BIN / "torchrun",)
    recorded = run_recorded(tmp_path, *words, executable=torchrun)
    plain = finish(start_plain(tmp_path, *words, executable=torchrun))
    assert recorded.returncode == plain.returncode == 0, recorded.stderr
    assert recorded.stdout == plain.stdout
    assert [len(set(lines)) for lines in losses(tmp_path)] == [1, 1]
    check_ranks(recorded, [0, 1], steps=24, first_step=4)


def test_ranks_open_a_window_of_their_choice_at_the_same_step(tmp_path):
    """The second rank's steps never agree by themselves, and the first one's do."""
    program = write_program(
        tmp_path,
        DDP.replace(
            "    optimizer.zero_grad()",
            "    time.sleep(0.01 if dist.get_rank() else 0.03)\n    optimizer.zero_grad()",
        )
        .replace(
            "    optimizer.step()",
            "    time.sleep(0.005 * (number % 2) * dist.get_rank())\n    optimizer.step()",
        )
        .replace("range(24)", "range(70)"),
    )
    words = ("--nproc_per_node=2", "--master_port=29612", program)
    recorded = run_recorded(tmp_path, *words, executable=(BIN / "torchrun",), steps="auto")
    assert recorded.returncode == 0, recorded.stderr
    check_ranks(recorded, [0, 1], steps=70)


def test_ranks_keep_as_many_short_calls(tmp_path):
    """One process would keep 64 of them. By their own times ranks would keep unlike numbers."""
    program = write_program(
        tmp_path,
        """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.Linear(8, 2)
with torch.inference_mode():
    for number in range(400):
        model(torch.randn(4, 8))
        dist.barrier()
dist.destroy_process_group()
""",
    )
    words = ("--nproc_per_node=2", "--master_port=29613", program)
    recorded = run_recorded(tmp_path, *words, executable=(BIN / "torchrun",), steps="auto")
    assert recorded.returncode == 0, recorded.stderr
    for status in check_ranks(recorded, [0, 1], steps=400):
        assert len(recorded._trace(status["traces"][0]).steps()) == 6


def test_accelerate_launch(tmp_path):
    program = write_program(
        tmp_path,
        """
from accelerate import Accelerator
import torch
accelerator = Accelerator(gradient_accumulation_steps=4)
torch.manual_seed(3)
model, data = torch.nn.Linear(8, 2), torch.randn(96, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(data, batch_size=1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for batch in loader:
    with accelerator.accumulate(model):
        loss = model(batch).pow(2).sum()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item().hex())
open(f"losses.{accelerator.process_index}", "a").write(" ".join(losses) + "\\n")
accelerator.end_training()
""",
    )
    words = ("launch", "--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no")
    words = (*words, "--dynamo_backend=no", program)
    recorded, plain = run_beside(tmp_path, words, words, executable=(BIN / "accelerate",))
    assert recorded.returncode == plain.returncode == 0, recorded.stderr
    assert [len(set(lines)) for lines in losses(tmp_path)] == [1]
    check_ranks(recorded, [0], steps=24, first_step=4)


TRAIN = """
import torch
torch.manual_seed(3)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps, after_step=lambda number: None):
    for number in range(1, steps + 1):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).pow(2).sum()
        loss.backward()
        optimizer.step()
        print(number, loss.item().hex(), flush=True)
        after_step(number)
"""


def test_shell_script_with_several_programs(tmp_path):
    """python -m, a script and a Python without torch, one after the other, each its own files."""
    text = """
import torch
torch.manual_seed(3)
model = torch.nn.Linear(8, 2)  # no optimizer, whose first one would take a second
for _ in range(STEPS):
    print(model(torch.randn(4, 8)).sum().item().hex())
"""
    write_program(tmp_path, text.replace("STEPS", "12"), "first.py")
    write_program(tmp_path, text.replace("STEPS", "14"), "second.py")
    shell = write_program(
        tmp_path,
        f"set -e\n{sys.executable} -c 'print(1)'\n{sys.executable} -m first x\n"
        f"{sys.executable} second.py y\nexit 3\n",
        "all.sh",
    )
    recorded, plain = run_beside(tmp_path, (shell,), (shell,), executable=("sh",))
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout)
    assert recorded.returncode == 3
    assert sorted(status["steps_seen"] for status in recorded.statuses) == [12, 14]
    for status in recorded.statuses:
        assert recorded._trace(status["traces"][0]).steps() == [4, 5, 6]


@pytest.mark.parametrize(
    ("method", "stays"), [("fork", False), ("spawn", True), ("forkserver", True)]
)
def test_loader_workers_without_an_optimizer(tmp_path, method, stays):
    """Transforms in workers are modules, and workers are forked inside the window: no steps.
    Those that import torch anew, which takes longest, serve both epochs."""
    recorded = run_both(
        tmp_path,
        f"""
import torch
class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.transform = torch.nn.Linear(4, 4)
    def __len__(self):
        return 12
    def __getitem__(self, index):
        with torch.no_grad():
            return self.transform(torch.full((4,), float(index)))
if __name__ == "__main__":
    torch.manual_seed(3)
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1,
                                         multiprocessing_context="{method}",
                                         persistent_workers={stays})
    for epoch in range(2):
        for batch in loader:
            print(batch.sum().item().hex())
""",
        steps="4:1:3",
        executable=WARM if method == "fork" else FRESH,
    )
    assert (recorded.status["steps_seen"], recorded.status["step_source"]) == (12, "loader")
    assert recorded.clean().steps() == [5, 6, 7]


def test_fork_inside_the_window(tmp_path):
    """The child trains on and is well; the parent's window is whole."""
    recorded = run_both(
        tmp_path,
        TRAIN
        + """
import os, sys
def after_step(number):
    if number == 5 and os.fork() == 0:
        sys.stdout = open(os.devnull, "w")
        train(9)
        os._exit(7)
    if number == 6:
        print(os.waitstatus_to_exitcode(os.wait()[1]))
train(14, after_step)
""",
    )
    assert recorded.status["explanation"] is None
    assert recorded.clean().steps() == [4, 5, 6]


def test_forked_child_that_trains_has_its_own_window(tmp_path):
    recorded = run_both(
        tmp_path,
        TRAIN
        + """
import os, sys
if os.fork() == 0:
    train(12)
    sys.stdout.flush()
    os._exit(0)
os.wait()
train(14)
""",
    )
    # The child ended by os._exit: what it last wrote is from the end of the stacks.
    assert sorted(status["steps_seen"] for status in recorded.statuses) == [9, 14]
    for status in recorded.statuses:
        assert recorded._trace(status["traces"][0]).steps() == [4, 5, 6]
