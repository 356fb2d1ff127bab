"""Goal: of any sequence of optimizer steps and module calls the right ones end steps.

Method: sequences as text, one letter for each step; those that end one are written as letters, the
others as dots. No torch is needed.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from kinetoscope.run_status import RunStatus, rank_of_environment  # noqa: E402
from kinetoscope.torch import joint_start  # noqa: E402
from kinetoscope.torch.call_counter import CallCounter  # noqa: E402
from kinetoscope.torch.explain import explain  # noqa: E402
from kinetoscope.torch.joint_start import JointStart  # noqa: E402
from kinetoscope.torch.step_counter import StepCounter  # noqa: E402
from kinetoscope.torch.step_finder import LOADER, OPTIMIZER, StepFinder  # noqa: E402
from kinetoscope.torch.step_pace import INTERVAL_NS, POINTS_MAX, StepPace  # noqa: E402
from kinetoscope.torch.step_times import StepTimes  # noqa: E402
from kinetoscope.torch.window_spec import WindowSpec  # noqa: E402


class Thing:
    pass


def play(counter, sequence, durations=None):
    things = {name: Thing() for name in sequence}
    ends = [
        name if counter.is_step_end(things[name], (durations or {}).get(name, 0)) else "."
        for name in sequence
    ]
    return "".join(ends)


@pytest.mark.parametrize(
    ("sequence", "ends", "steps", "changes"),
    [
        ("AAAA", "AAAA", 4, 0),
        ("ABABABAB", "AB.B.B.B", 4, 1),
        ("ABCABCABCABC", "ABC..C..C..C", 4, 2),
        ("DDDGDDDGDDDG", "DDDG...G...G", 3, 1),
        ("GDDDGDDDGDDD", "GD..G...G...", 3, 2),
        ("AADDAADDAADD", "AADD..DD..DD", 6, 1),
    ],
)
def test_rarest_optimizer_is_the_clock(sequence, ends, steps, changes):
    counter = StepCounter()
    assert play(counter, sequence) == ends
    assert (counter.step_count, counter.clock_changes) == (steps, changes)


def test_rare_visitor_disturbs_nothing():
    counter = StepCounter()
    play(counter, "A" * 100 + ("B" + "A" * 150) * 2)
    assert (counter.step_count, counter.clock_changes) == (400, 0)


def test_second_phase_goes_on_counting():
    counter = StepCounter()
    ends = play(counter, "A" * 100 + "B" * 100)
    assert counter.step_count == 199  # B's first step might have been a visitor's
    assert ends.endswith("B" * 30)


def test_generator_after_a_hundred_critics():
    counter = StepCounter()
    ends = play(counter, "D" * 100 + "G" + "D" * 100 + "G" + "DDDDDG" * 8)
    assert ends.endswith(".....G" * 5)


def test_optimizers_that_die():
    counter = StepCounter()
    ends = [play(counter, "AAA") for _ in range(30)]
    assert ends == ["AAA"] * 30
    assert (counter.step_count, counter.clock_changes) == (90, 0)


@pytest.mark.parametrize(
    ("sequence", "durations", "steps"),
    [
        ("MMMM", {"M": 5}, 4),
        ("MLMLML", {"M": 50, "L": 2}, 3),  # a model and its loss
        (
            "EDDDDEDDDD",
            {"E": 6, "D": 4},
            8,
        ),  # an encoder for each sequence, a decoder for each token
        ("TUUUVTUUUV", {"T": 9, "U": 8, "V": 9}, 6),  # the steps of a diffusion
    ],
)
def test_module_with_most_time_is_the_clock(sequence, durations, steps):
    counter = CallCounter()
    play(counter, sequence, durations)
    assert counter.step_count == steps


def test_modules_that_last_about_as_long_do_not_change_the_clock():
    counter = CallCounter()
    assert play(counter, "ABABABAB", {"A": 10, "B": 15}) == "A.A.A.A."
    assert counter.clock_changes == 0


def ranks(folder, count=2):
    statuses = [RunStatus(str(folder), rank) for rank in range(count)]
    return [JointStart(status, count) for status in statuses]


def test_ranks_begin_at_the_step_that_rank_0_says(tmp_path):
    """The other one has ended a step more, and its own times never agree."""
    leader, other = ranks(tmp_path)
    assert not other.is_due(11, False)
    assert not leader.is_due(10, True)
    assert [leader.is_due(step, False) for step in (11, 12)] == [False, True]
    assert other.is_due(12, False)


@pytest.mark.parametrize(("step_ns", "steps"), [(40_000_000, 32), (1_000_000, 1000)])
def test_rank_that_hears_nothing_begins_by_itself(tmp_path, monkeypatch, step_ns, steps):
    """After 32 steps and a second."""
    clock = iter(range(0, 10**12, step_ns))
    monkeypatch.setattr(joint_start, "perf_counter_ns", lambda: now[0])
    _, other = ranks(tmp_path)
    due = []
    for step in range(10, 1100):
        now = [next(clock)]
        due.append(other.is_due(step, step == 20))
    assert due.index(True) + 10 == 20 + steps
    assert all(due[due.index(True) :])


def test_word_of_an_earlier_start_is_forgotten(tmp_path):
    leader, _ = ranks(tmp_path)
    leader.is_due(3, True)
    leader, other = ranks(tmp_path)
    assert not other.is_due(30, False)


def test_rank_alone_begins_when_its_times_agree(tmp_path):
    (alone,) = ranks(tmp_path, 1)
    assert [alone.is_due(1, False), alone.is_due(2, True)] == [False, True]
    assert list(tmp_path.iterdir()) == []


def test_start_up_is_no_step_time():
    times = StepTimes()
    for dur_ns in (900, 800, 700, 100, 101, 102, 103):
        times.add_before(dur_ns)
        assert not times.agree()
    times.add_before(104)
    assert times.agree()
    assert times.before_ns == [100, 101, 102, 103, 104]


@pytest.mark.parametrize(("last", "agree"), [(110, True), (111, False), (91, True), (90, False)])
def test_times_agree_within_ten_percent(last, agree):
    times = StepTimes()
    for dur_ns in (900, 900, 900, 100, 100, 100, 100, last):
        times.add_before(dur_ns)
    assert times.agree() is agree


def test_short_wait_keeps_half_of_its_times():
    times = StepTimes()
    for dur_ns in (900, 100, 101):
        times.add_before(dur_ns)
    assert times.before_ns == [100, 101]
    for dur_ns in range(600):
        times.add_before(dur_ns)
    assert times.before_ns == list(range(88, 600))  # the latest 512


def test_after_times_are_twenty():
    times = StepTimes()
    assert [times.add_after(1) for _ in range(25)].index(True) == 19
    assert len(times.after_ns) == 20


def test_higher_sign_takes_over_and_lower_ones_are_silent():
    finder, optimizer = StepFinder(None, lambda: False), Thing()
    assert [finder.is_step_end(LOADER, 1) for _ in range(4)] == [False, True, True, True]
    assert (finder.step_count, finder.restarts) == (3, 0)
    assert finder.is_step_end(OPTIMIZER, optimizer)
    assert (finder.step_count, finder.restarts) == (1, 1)
    assert not finder.is_step_end(LOADER, 1)
    assert (finder.step_count, finder.source_name) == (1, "optimizer")


def test_of_two_loaders_the_first_counts_until_it_is_used_up():
    """Batches of "A" and "B" by turns; requests of "A" end steps, the first of all ends none."""
    finder = StepFinder(None, lambda: False)
    ends = [finder.is_step_end(LOADER, key) for key in "ABABAB" + "BBB"]
    assert ends == [False, False, True, False, True, False] + [False, True, True]


def test_epoch_end_of_a_loader_ends_no_step():
    finder = StepFinder(None, lambda: False)
    ends = [finder.is_step_end(LOADER, "A") for _ in range(3)]
    assert not finder.epoch_ended("B")
    assert finder.epoch_ended("A")
    ends += [finder.is_step_end(LOADER, "A") for _ in range(2)]
    assert ends == [False, True, True, False, True]


def test_loader_of_a_program_with_an_idle_optimizer_counts_after_a_while():
    finder = StepFinder(None, lambda: False)
    finder.has_optimizer = True
    assert not any(finder.is_step_end(LOADER, 1) for _ in range(512))
    finder.is_step_end(LOADER, 1)
    assert finder.is_step_end(LOADER, 1)


def test_loader_worker_has_no_steps():
    finder = StepFinder(None, lambda: True)
    assert not any(finder.is_step_end(LOADER, 1) for _ in range(3))
    assert finder.source is None


@pytest.mark.parametrize(
    ("ended_by", "is_over", "words"),
    [
        (["steps", "steps"], False, None),
        (["steps", "steps"], True, "There are 2 of 3 windows: the program ended."),
        (["steps"] * 3, True, None),
        (["steps", "seconds"], False, "The window holds 1 of 3 steps: it had lasted 60 seconds."),
    ],
)
def test_missing_windows_are_explained(ended_by, is_over, words):
    spec, finder = WindowSpec.parse("1:1:3:3"), StepFinder(None, lambda: False)
    notes = {"steps_recorded": 1}
    assert explain(spec, finder, notes, ended_by, False, is_over, False) == words


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, 0),
        ({"RANK": "3", "SLURM_PROCID": "4"}, 3),
        ({"RANK": "²", "SLURM_PROCID": "4"}, 4),
        ({"RANK": "-1", "PMI_RANK": "6"}, 6),
    ],
)
def test_rank_of_environment(monkeypatch, variables, rank):
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert rank_of_environment() == rank


def test_pace_is_due_every_two_seconds_at_most():
    pace = StepPace()
    assert pace.due_ns == 0  # the first step is noted
    pace.note(5, 1)
    pace.written(7, 1_000_000)  # a quick write changes nothing
    assert pace.due_ns == 5 + INTERVAL_NS
    pace.written(7, 50_000_000)  # 50 ms: ten seconds later at the earliest
    assert pace.due_ns == 7 + 10_000_000_000


def test_pace_keeps_the_latest_times():
    pace = StepPace()
    for step in range(1, 101):
        pace.note(step, step)
    members = pace.members()
    assert members["pace_steps"] == list(range(101 - POINTS_MAX, 101))
    assert members["pace_ns"] == sorted(members["pace_ns"])
    assert len(members["pace_ns"]) == POINTS_MAX
    pace.forget()
    assert pace.members() == {"pace_steps": [], "pace_ns": []}
    assert pace.due_ns == 0
