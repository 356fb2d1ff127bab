"""Goal: each switch can be given, set and read from outside, and those that say so change what is
recorded. Method: files and environments written here; torch's own arguments as they arrive."""

import json

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_names_and_aliases(ks):
    config = ks.create_profiling_config(profile_shapes=False, use_torch_compile=True)
    assert config.record_shapes is False and config.use_compile is True
    config.profile_shapes = True
    assert config.record_shapes is True
    with pytest.raises(TypeError, match="no_such"):
        ks.create_profiling_config(no_such=1)
    with pytest.raises(TypeError, match="two names"):
        ks.create_profiling_config(record_shapes=True, profile_shapes=True)


def test_presets(ks):
    assert ks.ProfilingConfig.development().with_flops is True
    production = ks.ProfilingConfig.production(with_stack=True)
    assert production.with_stack is True and production.record_shapes is False


def test_from_files(ks, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"with_stack": False, "output_dir": "x"}))
    (tmp_path / "a.toml").write_text('with_stack = false\noutput_dir = "x"\n')
    for name in ("a.json", "a.toml"):
        config = ks.ProfilingConfig.from_file(tmp_path / name)
        assert config.with_stack is False and config.output_dir == "x"
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(ValueError, match="no object"):
        ks.ProfilingConfig.from_file(tmp_path / "b.json")
    with pytest.raises(OSError):
        ks.ProfilingConfig.from_file(tmp_path / "nowhere.json")


def test_from_environment(ks, monkeypatch):
    monkeypatch.setenv("KSCOPE_PROFILE_WITH_STACK", "off")
    monkeypatch.setenv("KSCOPE_PROFILE_OUTPUT_DIR", "y")
    config = ks.ProfilingConfig.from_environment(with_flops=True)
    assert (config.with_stack, config.output_dir, config.with_flops) == (False, "y", True)
    monkeypatch.setenv("KSCOPE_PROFILE_WITH_STACK", "perhaps")
    with pytest.raises(ValueError, match="WITH_STACK"):
        ks.ProfilingConfig.from_environment()


def inputs_of(profiler):
    profiler.profile_step(lambda: torch.ones(4, 4) @ torch.ones(4, 4))
    (source,) = profiler.report.document["inputs"]
    return source["switches"]


@pytest.mark.parametrize(
    ("switch", "key"),
    [
        ("record_shapes", "record_shapes"),
        ("profile_memory", "profile_memory"),
        ("profile_memory_allocations", "profile_memory"),
        ("with_stack", "with_stack"),
        ("with_flops", "with_flops"),
    ],
)
def test_switches_of_torch_reach_the_trace(make, switch, key):
    profilers = [make(**{switch: on}).pytorch_profiler for on in (True, False)]
    assert [inputs_of(profiler)[key] for profiler in profilers] == [True, False]


def test_schedules(make):
    """Which steps are recorded, told by how often each step calls an operator."""

    def recorded(schedule):
        profiler = make(profiler_schedule=schedule, with_stack=False).pytorch_profiler
        with profiler.record():
            for step in range(6):
                for _ in range(10**step if step < 3 else step):
                    torch.ones(2).neg()
                profiler.step()
        (calls,) = [r["calls"] for r in profiler.report.operators if r["name"] == "aten::neg"]
        return calls

    assert recorded("RECORD_AND_SAVE") == 1 + 10 + 100 + 3 + 4 + 5
    assert recorded(torch.profiler.ProfilerAction.RECORD_AND_SAVE) == 123
    assert recorded("1:1:3:1") == 100 + 3 + 4
    assert recorded(torch.profiler.schedule(wait=3, warmup=1, active=2, repeat=1)) == 9
    # Each step is a window of its own, and all of them are in the report.
    assert recorded(lambda step: torch.profiler.ProfilerAction.RECORD_AND_SAVE) == 123
    with pytest.raises(ValueError, match="WAIT:WARMUP:ACTIVE"):
        recorded("sometimes")


def test_each_window_is_handed_over_once(make, tmp_path):
    """A handler gets each window's own trace, though torch writes a trace only once."""
    calls = []

    def handler(profile):
        path = tmp_path / f"window{len(calls)}.json"
        profile.export_chrome_trace(path)
        events = json.loads(path.read_text())["traceEvents"]
        calls.append(sum(event.get("name") == "aten::neg" for event in events))

    always = torch.profiler.ProfilerAction.RECORD_AND_SAVE
    switches = {"torch_profiler_trace_handler": handler, "with_stack": False}
    profiler = make(torch_profiler_schedule=lambda step: always, **switches).pytorch_profiler
    with profiler.record():
        for step in range(1, 4):
            for _ in range(step):
                torch.ones(2).neg()
            profiler.step()
    assert calls[:3] == [1, 2, 3]


def test_names_are_given_where_the_package_says(ks):
    """`kinetoscope` gives what `kinetoscope.torch` has, and nothing else under those names."""
    import kinetoscope.hf
    import kinetoscope.torch as of_torch

    assert set(ks._OF_TORCH) == set(of_torch.PUBLIC) <= set(dir(of_torch)) & set(dir(ks))
    for name in of_torch.PUBLIC:
        assert getattr(ks, name) is getattr(of_torch, name)
        assert getattr(ks, name).__module__ == f"kinetoscope.torch.{of_torch.PUBLIC[name]}"
    for package in (of_torch, kinetoscope.hf):
        with pytest.raises(AttributeError, match=f"{package.__name__}.*no attribute 'nothing'"):
            _ = package.nothing
