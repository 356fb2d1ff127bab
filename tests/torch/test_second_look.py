"""Goal: what came second in precision is tried again behind what changes its worth. Method: the
search of tune_model over a contest whose times are written down, so that nothing is measured."""

import types

import pytest
from tuned_models import torch

pytestmark = pytest.mark.torch
HALF, THIRDS = "bfloat16", "tf32"


class Written:
    """A contest in which a setting takes times[(precision, compile)] ms."""

    def __init__(self, times):
        self.times, self.tried, self.rows, self._settings = times, [], [], {}
        self.work = types.SimpleNamespace(device=torch.device("cpu"))

    def admit(self, setting, config, label):
        key = (setting.precision, setting.compile)
        row = {"config": config, "time": self.times[key], "reason": None, "peak_bytes": None}
        self.tried.append(key)
        self.rows.append(row)
        self._settings[id(row)] = setting
        return row

    def race(self, seconds, among):
        return min(among, key=lambda row: row["time"])

    def runner_of(self, row):
        return types.SimpleNamespace(setting=self._settings[id(row)])

    def dismiss(self, row):
        pass


def searched(monkeypatch, times, names=("precision", "compile")):
    from kinetoscope.tune import combination, stages

    changes = {
        "precision": [{"precision": THIRDS}, {"precision": HALF}],
        "compile": [{"compile": "default"}],
    }
    monkeypatch.setattr(
        stages, "settings", lambda name, work, now, _: [now.with_(**c) for c in changes[name]]
    )
    contest = Written(times)
    search = combination._Search(contest, None, 1.0, None)
    for name in names:
        search.try_stage(name)
    search.look_again("precision")
    return search.setting, contest.tried


TIMES = {
    (None, "default"): 50.0,
    (None, None): 56.0,
    (THIRDS, None): 22.0,
    (HALF, None): 25.0,
    (THIRDS, "default"): 18.0,
    (HALF, "default"): 12.0,
}


def test_second_precision_wins_once_it_is_compiled(ks, monkeypatch):
    setting, tried = searched(monkeypatch, TIMES)
    assert (setting.precision, setting.compile) == (HALF, "default")
    assert tried[-1] == (HALF, "default") and len(tried) == 5


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({(HALF, None): 34.0}, ("precision", "compile")),  # it was too far behind
        ({(THIRDS, "default"): 23.0}, ("precision", "compile")),  # nothing was kept behind it
        ({}, ("compile", "precision")),  # it was tried on top already
    ],
)
def test_no_second_look_without_a_reason(ks, monkeypatch, changed, names):
    setting, tried = searched(monkeypatch, TIMES | changed, names)
    best = (HALF, "default") if names[0] == "compile" else (THIRDS, setting.compile)
    assert (setting.precision, setting.compile) == best
    assert len(tried) == len(set(tried)) == 4
