"""The function profiler: calls equal cProfile's, times agree, and the program never notices.

Programs run in processes of their own, by the interpreter of these tests or the one that
KSCOPE_TEST_PYTHON names.
"""

import ast
import json
import marshal
import os
import pathlib
import pstats
import shutil
import subprocess
import sys
import textwrap

import build_extension
import function_programs
import pytest
from build_extension import PYTHON, ROOT

HERE = pathlib.Path(__file__).parent
STUB = ROOT / "python" / "kinetoscope" / "_kscope.pyi"

PRELUDE = """
import json, os, sys, threading, time
from kinetoscope import FunctionProfiler

def by_name(stats):
    return {name: [*value[:4], {c[2]: v for c, v in value[4].items()}]
            for (file, line, name), value in stats.items()}

def rss_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def say(**found):
    print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    return build_extension.environment(tmp_path_factory.mktemp("extension"))


@pytest.fixture
def run(environment, tmp_path):
    """Runs a program, which must end well and quietly; what it says as JSON."""

    def run_program(program):
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + textwrap.dedent(program))
        command = [PYTHON, str(file)]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        # torch's profiler says on stderr when it starts.
        assert [x for x in done.stderr.splitlines() if not x.startswith("USDT:")] == []
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None

    return run_program


@pytest.fixture(scope="session")
def version():
    out = subprocess.run(
        [PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
    ).stdout
    return tuple(map(int, out.split()))


# ---------------------------------------------------------------- against cProfile

NAMES = [
    pytest.param(p.__name__, marks=pytest.mark.torch if p.__name__ == "training_steps" else ())
    for p in function_programs.PROGRAMS
]


TRIES = 3  # other work on the machine may lengthen one of two times


def compared(environment, name):
    out = subprocess.run(
        [PYTHON, str(HERE / "compare_profiles.py"), name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def wrong_times(times):
    """What differs from cProfile's, each the shortest of five."""
    wrong = []
    for label, own, cumulative, our_own, our_cumulative in times:
        if label.startswith("~"):
            continue
        # Our cost is less, and part of what both measure.
        if our_cumulative >= 1.3 * cumulative + 20e-6:
            wrong.append((label, "cumulative", our_cumulative, cumulative))
        # Nothing that costs us happens inside of this one.
        if label.endswith(":work") and our_own != pytest.approx(own, rel=0.3, abs=10e-6):
            wrong.append((label, "own", our_own, own))
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_calls_and_times_are_those_of_cprofile(environment, name):
    for _ in range(TRIES):
        found = compared(environment, name)
        assert found["calls"] > 50 and found["functions"] > 3
        assert found["different"] == []
        if name not in ("class_bodies", "coroutines", "training_steps"):
            assert any(label.endswith(":work") for label, *_ in found["times"])
        wrong = wrong_times(found["times"])
        if not wrong:
            return
    assert wrong == []


def test_a_comparison_with_a_wrong_count_fails(environment, tmp_path):
    """Plants a fault: a profiler that is off for one call of many is found."""
    text = (HERE / "compare_profiles.py").read_text()
    planted = text.replace(
        "    program()\n    profile.stop()",
        "    profile.stop()\n    function_programs.work(1)\n    profile.start()\n"
        "    program()\n    function_programs.work(1)\n    profile.stop()",
    )
    assert planted != text
    file = tmp_path / "planted.py"
    file.write_text(planted)
    out = subprocess.run(
        [PYTHON, str(file), "decorators"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert out.returncode == 0, out.stderr
    assert [label.split(":")[-1] for label, *_ in json.loads(out.stdout)["different"]] == ["work"]


# ---------------------------------------------------------------- what is counted


def test_time_of_recursion_counts_once(run):
    found = run("""
        def nap(n):
            time.sleep(0.01)
            if n:
                nap(n - 1)
        with FunctionProfiler() as profiler:
            nap(4)
        say(**by_name(profiler.stats()))
    """)
    cc, nc, own, cumulative, callers = found["nap"]
    assert (cc, nc) == (1, 5)
    assert 0.05 <= cumulative < 0.09
    assert own < 0.02
    assert callers == {"nap": [4, 1, pytest.approx(own, abs=0.01), pytest.approx(0.04, abs=0.02)]}
    assert found["<built-in method time.sleep>"][:2] == [5, 5]


def test_own_times_add_up_to_the_whole(run):
    found = run("""
        import function_programs
        def whole():
            for program in function_programs.PROGRAMS[:4]:
                program()
        whole()
        with FunctionProfiler() as profiler:
            whole()
        stats = profiler.stats()
        say(own=sum(v[2] for v in stats.values()), whole=by_name(stats)["whole"][3])
    """)
    assert found["own"] == pytest.approx(found["whole"], rel=0.001)


def test_without_c_calls_their_time_is_the_callers(run):
    found = run("""
        def caller():
            time.sleep(0.02)
        with FunctionProfiler(c_calls=False) as profiler:
            caller()
        say(**by_name(profiler.stats()))
    """)
    assert list(found) == ["caller"]
    assert found["caller"][2] >= 0.02


def test_threads_that_run_already_and_threads_to_come(run):
    found = run("""
        go, end = threading.Event(), threading.Event()
        def counted(): pass
        def early():
            go.wait()
            for _ in range(1000): counted()
            end.wait()
        old = threading.Thread(target=early)
        old.start()
        time.sleep(0.05)
        profiler = FunctionProfiler()
        profiler.start()
        go.set()
        def late():
            for _ in range(10): counted()
        threads = [threading.Thread(target=late) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        end.set()
        old.join()
        profiler.stop()
        say(hook=threading.getprofile(), **by_name(profiler.stats()))
    """)
    assert found["counted"][:2] == [1200, 1200]
    # What was called before the start is not known, so that `early` is no caller.
    assert found["counted"][4] == {"late": [200, 200, *found["counted"][4]["late"][2:]]}
    assert found["hook"] is None


def test_many_short_threads_do_not_make_it_grow(run):
    found = run("""
        def target(): len("")
        def go(times):
            for _ in range(times):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
        profiler = FunctionProfiler()
        with profiler: go(20)
        paths = profiler.paths
        with profiler: go(500)
        say(before=paths, after=profiler.paths, **by_name(profiler.stats()))
    """)
    assert found["target"][0] == 520
    assert found["after"] <= 2 * found["before"]


def test_many_children_and_code_that_dies(run):
    found = run("""
        profiler = FunctionProfiler(c_calls=False)
        def go():
            for i in range(5000):
                names = {}
                exec(f"def made{i}(): pass", names)
                for _ in range(i % 3 + 1):
                    names.pop(f"made{i}")() if _ == i % 3 else names[f"made{i}"]()
        profiler.start()
        go()
        profiler.stop()
        stats = by_name(profiler.stats())
        wrong = [i for i in range(5000) if stats.get(f"made{i}", [0])[0] != i % 3 + 1]
        say(wrong=wrong, callers=stats["made7"][4], modules=stats["<module>"][0])
    """)
    assert found["wrong"] == []
    assert list(found["callers"]) == ["go"]
    assert found["modules"] == 5000


def test_functions_of_one_name_and_place_add_up(run):
    found = run("""
        def make():
            exec(compile("def same(): pass\\nsame()", "made.py", "exec"), {})
        with FunctionProfiler() as profiler:
            for _ in range(7): make()
        say(**by_name(profiler.stats()))
    """)
    assert found["same"][:2] == [7, 7]
    assert found["same"][4]["<module>"][:2] == [7, 7]


def test_stats_while_it_is_on(run):
    found = run("""
        def outer():
            time.sleep(0.02)
            return by_name(profiler.stats())
        profiler = FunctionProfiler()
        with profiler:
            early = outer()
        say(early=early["outer"], late=by_name(profiler.stats())["outer"], on=profiler.is_on)
    """)
    assert found["early"][:2] == found["late"][:2] == [1, 1]
    assert 0.02 <= found["early"][3] <= found["late"][3]
    assert found["early"][2] < 0.02  # the sleep is not its own
    assert found["on"] is False


def test_it_goes_on_and_forgets(run):
    found = run("""
        def counted(): pass
        profiler = FunctionProfiler()
        for _ in range(3):
            with profiler: counted()
        before = by_name(profiler.stats())["counted"][0]
        profiler.clear()
        empty = len(profiler.stats())
        with profiler: counted()
        say(before=before, empty=empty, after=by_name(profiler.stats())["counted"][0])
    """)
    assert found == {"before": 3, "empty": 0, "after": 1}


# ---------------------------------------------------------------- limits

PATHS = """
        calls = {"a": 0, "b": 0}
        def a(n):
            calls["a"] += 1
            if n: a(n - 1); b(n - 1)
        def b(n):
            calls["b"] += 1
            if n: a(n - 1); b(n - 1)
"""


def test_paths_beyond_the_limit_are_counted_by_function(run):
    found = run(
        PATHS
        + """
        profiler = FunctionProfiler(c_calls=False, max_paths=100)
        def whole(): a(12)
        with profiler: whole()
        stats = by_name(profiler.stats())
        say(calls=calls, paths=profiler.paths, without=profiler.calls_without_path,
            own=sum(v[2] for v in stats.values()), least=min(v[2] for v in stats.values()), **stats)
    """
    )
    assert found["a"][1] == found["calls"]["a"] and found["b"][1] == found["calls"]["b"]
    assert found["paths"] == 100
    assert found["without"] == sum(found["calls"].values()) + 1 - 100
    assert found["a"][4]["(other)"][0] > 1000
    assert found["own"] == pytest.approx(found["whole"][3], rel=0.01)
    assert found["least"] >= 0


def test_a_million_paths_take_bounded_memory(run):
    found = run(
        PATHS
        + """
        profiler = FunctionProfiler(c_calls=False)
        before = rss_bytes()
        with profiler: a(19)
        grown = rss_bytes() - before
        stats = by_name(profiler.stats())
        say(grown=grown, calls=sum(calls.values()), found=stats["a"][1] + stats["b"][1])
    """
    )
    assert found["found"] == found["calls"] == 2**20 - 1
    assert found["grown"] < 80e6


def test_deep_recursion(run):
    found = run("""
        sys.setrecursionlimit(60000)
        def deep(n):
            return deep(n - 1) if n else 0
        profiler = FunctionProfiler()
        with profiler: deep(30000)
        profiler.dump_stats("deep.pstats")
        say(deep=by_name(profiler.stats())["deep"], paths=profiler.paths)
    """)
    assert found["deep"][:2] == [1, 30001]
    assert found["paths"] == 30001


# ---------------------------------------------------------------- results


def test_pstats_opens_the_file(run, tmp_path):
    run("""
        import function_programs
        with FunctionProfiler() as profiler:
            function_programs.callbacks()
        profiler.dump_stats("out.pstats")
    """)
    stats = pstats.Stats(str(tmp_path / "out.pstats"), stream=open(os.devnull, "w"))
    stats.sort_stats("cumulative").print_stats().print_callers().print_callees()
    assert stats.total_calls > 1000
    with open(tmp_path / "out.pstats", "rb") as file:
        plain = marshal.load(file)
    (key, value), *_ = plain.items()
    assert [type(x) for x in key] == [str, int, str]
    assert [type(x) for x in value] == [int, int, float, float, dict]
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_a_file_that_cannot_be_written(run, tmp_path):
    found = run("""
        profiler = FunctionProfiler()
        errors = []
        os.mkdir("folder")
        for path in ("missing/out", "folder", "x" * 5000, 5):
            try:
                profiler.dump_stats(path)
            except (OSError, TypeError) as error:
                errors.append(type(error).__name__)
        say(errors=errors)
    """)
    assert found["errors"] == ["FileNotFoundError", "IsADirectoryError", "OSError", "TypeError"]
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []


def test_cost_of_a_call_is_measured(run):
    found = run("""
        profiler = FunctionProfiler()
        before = profiler.cost_per_call
        with profiler: pass
        say(before=before, cost=profiler.cost_per_call)
    """)
    assert found["before"] == 0
    assert 1e-9 < found["cost"] < 5e-6


# ---------------------------------------------------------------- errors and neighbours


def test_wrong_use_has_clear_errors(run):
    found = run("""
        def text(call, *args, **kwargs):
            try:
                call(*args, **kwargs)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        first, second = FunctionProfiler(), FunctionProfiler()
        first.start()
        say(found=[text(first.start), text(second.start), text(second.stop), text(first.clear),
                   text(first.__init__), text(first.stop), text(second.start), text(second.stop),
                   text(FunctionProfiler, max_paths=0), text(FunctionProfiler, False)])
    """)
    assert [error and error.partition(": ")[2] for error in found["found"][:5]] == [
        "Cannot start the function profiler: it is on already",
        "Cannot start the function profiler: another one is on, and it sees all threads; stop that"
        " one first",
        "Cannot stop the function profiler: it is not on",
        "Cannot clear the function profiler while it is on",
        "A FunctionProfiler is made once",
    ]
    assert found["found"][5:8] == [None] * 3
    assert found["found"][8] == "ValueError: max_paths must be from 1 to 16777216, not 0"
    assert found["found"][9].startswith("TypeError")


def test_it_says_when_cprofile_is_on(run, version):
    found = run("""
        import cProfile
        other = cProfile.Profile()
        other.enable()
        profiler = FunctionProfiler()
        error = None
        try:
            profiler.start()
            profiler.stop()
        except RuntimeError as raised:
            error = str(raised)
        other.disable()
        say(error=error, calls=len(other.getstats()))
    """)
    assert found["calls"] > 0
    if version >= (3, 12):
        assert found["error"] is None
    else:
        assert "cProfile is on" in found["error"]


@pytest.mark.torch
def test_it_says_when_torch_profiles_stacks(run, version):
    if PYTHON != sys.executable:
        pytest.skip("torch is in the environment of these tests")
    found = run("""
        import torch
        error = None
        with torch.profiler.profile(with_stack=True):
            try:
                FunctionProfiler().start()
            except RuntimeError as raised:
                error = str(raised)
        with FunctionProfiler() as profiler:
            torch.zeros(1)
        say(error=error, calls=len(profiler.stats()))
    """)
    assert found["calls"] > 0
    assert version >= (3, 12) or "torch.profiler(with_stack=True) is on" in found["error"]


def test_profile_functions_of_the_program_come_back(run, version):
    found = run("""
        import warnings
        seen = []
        def mine(frame, event, arg): seen.append(event)
        def hook(frame, event, arg): pass
        def counted(): pass
        threading.setprofile(hook)
        sys.setprofile(mine)
        profiler = FunctionProfiler()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            profiler.start()
        before = len(seen)
        counted()
        between = len(seen) - before
        profiler.stop()
        is_back = sys.getprofile() is mine
        sys.setprofile(None)
        say(is_back=is_back, hook=threading.getprofile() is hook, between=between,
            warnings=[str(w.message) for w in caught], **by_name(profiler.stats()))
    """)
    assert found["is_back"] and found["hook"]
    assert found["counted"][0] == 1
    if version < (3, 12):
        assert found["between"] == 0
        assert found["warnings"] == [
            "The function set by sys.setprofile() is not called while the function profiler is on"
        ]


def test_another_profiler_that_takes_over_is_said(run, version):
    if version >= (3, 12):
        pytest.skip("sys.monitoring has room for several tools")
    found = run("""
        import warnings
        profiler = FunctionProfiler()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with profiler:
                sys.setprofile(lambda *event: None)
        still = sys.getprofile() is not None
        sys.setprofile(None)
        say(warnings=[str(w.message) for w in caught], still=still)
    """)
    assert found["still"]
    assert found["warnings"] == [
        "Another profiler took over while the function profiler was on; calls from then on are "
        "missing"
    ]


def test_a_program_may_put_back_what_getprofile_gave(run):
    found = run("""
        import warnings
        warnings.simplefilter("ignore")
        with FunctionProfiler():
            before = sys.getprofile()
            sys.setprofile(None)
            sys.setprofile(before)
            len("")
        sys.setprofile(None)
        say(fine=True)
    """)
    assert found == {"fine": True}


# ---------------------------------------------------------------- the program never notices


def test_tracebacks_results_and_exit_status_stay(environment, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent("""
        import sys
        if sys.argv[1] == "on":
            from kinetoscope import FunctionProfiler
            FunctionProfiler().start()
        def deep(n):
            try:
                return deep(n - 1) if n else [].pop()
            except IndexError as error:
                raise ValueError(n) from error
        deep(5)
    """)
    )

    def outcome(word):
        command = [PYTHON, str(file), word]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    assert outcome("on") == outcome("off")
    assert outcome("on")[0] == 1


def test_left_on_until_the_end(run):
    found = run("""
        import atexit, weakref
        class Late:
            def __del__(self): len("late")
        late = Late()
        sys.modules["kept"] = Late()
        profiler = FunctionProfiler()
        profiler.start()
        atexit.register(lambda: len("end"))
        thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
        thread.start()
        del profiler
        say(fine=True)
    """)
    assert found == {"fine": True}


def test_forked_children_go_on(run):
    found = run("""
        import multiprocessing
        def counted(): pass
        def child(queue):
            for _ in range(10): counted()
            queue.put(True)
        profiler = FunctionProfiler()
        profiler.start()
        pid = os.fork()
        if pid == 0:
            counted()
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        processes = [context.Process(target=child, args=(queue,)) for _ in range(3)]
        for process in processes: process.start()
        answers = [queue.get() for _ in processes]
        for process in processes: process.join()
        codes = [process.exitcode for process in processes]
        counted()
        profiler.stop()
        say(status=status, answers=answers, codes=codes, **by_name(profiler.stats()))
    """)
    assert found["status"] == 7
    assert found["answers"] == [True] * 3 and found["codes"] == [0] * 3
    assert found["counted"][0] == 1


def test_profilers_that_go_leave_no_memory(run):
    found = run("""
        def made(i):
            names = {}
            exec(f"def made{i}(): pass", names)
            names[f"made{i}"]()
        def once():
            with FunctionProfiler(max_paths=300) as profiler:
                for i in range(400): made(i)
                thread = threading.Thread(target=made, args=(1,))
                thread.start()
                thread.join()
            profiler.stats()
        for _ in range(10): once()
        before = rss_bytes()
        for _ in range(60): once()
        say(grown=rss_bytes() - before)
    """)
    assert found["grown"] < 3e6


@pytest.mark.torch
def test_training_is_bit_identical(run):
    if PYTHON != sys.executable:
        pytest.skip("torch is in the environment of these tests")
    found = run("""
        import torch
        def train():
            torch.manual_seed(3)
            layers = torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.Linear(16, 1)
            model = torch.nn.Sequential(*layers)
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.randn(4, 8)).square().mean().backward()
                optimizer.step()
            return b"".join(p.detach().numpy().tobytes() for p in model.parameters()).hex()
        without = train()
        with FunctionProfiler():
            with_it = train()
        say(same=without == with_it)
    """)
    assert found["same"]


# ---------------------------------------------------------------- the package


def test_without_an_extension_the_import_says_why(tmp_path):
    shutil.copytree(ROOT / "python" / "kinetoscope", tmp_path / "kinetoscope")
    done = subprocess.run(
        [PYTHON, "-c", "from kinetoscope import FunctionProfiler"],
        env=dict(os.environ, PYTHONPATH=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: there is no kinetoscope extension for this Python: ")


def test_the_package_has_it_and_the_stub_is_right(environment):
    """The stub says what the type has, no more; it is loaded when it is asked for."""
    program = """
import inspect, json, sys
import kinetoscope
assert "kinetoscope._kscope" not in sys.modules
type = kinetoscope.FunctionProfiler
names = [n for n in vars(type) if n not in ("__doc__", "__module__", "__new__")]
signatures = {n: str(inspect.signature(getattr(type, n))) for n in names if n[0] != "_"
              and callable(getattr(type, n))}
print(json.dumps([sorted(names), signatures, str(inspect.signature(type))]))
assert all(vars(type)[n].__doc__ for n in names if n[0] != "_")
"""
    done = subprocess.run([PYTHON, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names, signatures, created = json.loads(done.stdout)
    stub = ast.parse(STUB.read_text())
    classes = {x.name: x for x in stub.body if isinstance(x, ast.ClassDef)}
    described = classes["FunctionProfiler"]
    assert sorted(f.name for f in described.body) == names
    for function in described.body:
        if function.name in signatures:
            assert words_of(function.args) == signatures[function.name], function.name
        elif function.name == "__init__":
            assert words_of(function.args).replace("self, ", "") == created


def words_of(arguments):
    """Parameters of a stub as inspect.signature() shows them, without annotations."""
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    if not arguments.posonlyargs and not arguments.kwonlyargs:  # a bound self is positional only
        arguments.posonlyargs, arguments.args = arguments.args, []
    return f"({ast.unparse(arguments)})"
