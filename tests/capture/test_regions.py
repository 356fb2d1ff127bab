"""Goal: regions, counters and markers of Python programs are recorded as they happened, and the
programs do what they do without. Method: small programs run with the extension of the build and are
read back by a reader that knows the layout alone (region_reader.py)."""

import asyncio
import inspect
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tests.capture.region_reader import Reading

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
# Another interpreter can be tried, with KSCOPE_EXTENSION_DIR at its extension.
INTERPRETER = os.environ.get("KSCOPE_TEST_PYTHON", sys.executable)


def kscope(*words):
    command = [ROOT / "build" / "kscope", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def run(tmp_path, source, env=None, status=0, words=()):
    """The recordings that a program leaves, and what it printed. It gets FOLDER as argv[1]."""
    folder = tmp_path / "recordings"
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(source))
    done = subprocess.run(
        [INTERPRETER, program, folder, *words],
        env={**os.environ, "PYTHONPATH": str(PYTHON), **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert status in (done.returncode, None), done.stderr
    return [Reading(path) for path in sorted(folder.glob("*.ksrec"))], done.stdout


START = """
import sys
import kinetoscope as ks
ks.start_recording(sys.argv[1])
"""


def run_started(tmp_path, source, **more):
    return run(tmp_path, START + textwrap.dedent(source), **more)


@pytest.fixture
def ks(monkeypatch):
    monkeypatch.syspath_prepend(str(PYTHON))
    import kinetoscope

    assert kinetoscope.profile_operation.__module__ == "kinetoscope"
    from kinetoscope._extension import extension

    assert extension.__name__ == "kinetoscope._kscope", "make build makes the extension"
    return kinetoscope


def test_blocks_nest(tmp_path):
    (reading,), _ = run_started(
        tmp_path,
        """
        outer = ks.profile_operation("outer", ks.categories.TRAINING_LOOP)
        inner = ks.profile_operation("inner")
        for i in range(3000):
            with outer as region:
                assert region is outer
                with inner, inner:
                    pass
                inner.begin()
                inner.end()
        """,
    )
    assert reading.count("outer") == 3000 and reading.count("inner") == 9000
    assert reading.unmatched == 0 and reading.lost == 0 and reading.state == 1
    paths = [region.path for region in reading.regions[:4]]
    assert paths == [
        ("outer",),
        ("outer", "inner"),
        ("outer", "inner", "inner"),
        ("outer", "inner"),
    ]
    for region in reading.regions:
        assert region.category == ("training_loop" if region.name == "outer" else "custom")
        assert region.begin <= region.end
        assert not region.parent or region.parent.begin <= region.begin <= region.parent.end


def test_exceptions_pass(tmp_path):
    (reading,), out = run_started(
        tmp_path,
        """
        import contextlib
        region = ks.profile_operation("fails")
        error = KeyError("mine")
        try:
            with region:
                raise error
        except KeyError as caught:
            print(caught is error, caught.__context__)
        @region
        def fail():
            raise error
        try:
            fail()
        except KeyError as caught:
            print(caught is error)
        with contextlib.ExitStack() as stack:
            print(stack.enter_context(region) is region)
        print(type(region).__enter__(region) is region, region.__exit__(None, None, None))
        """,
    )
    assert out.split("\n")[:4] == ["True None", "True", "True", "True False"]
    assert reading.count("fails") == 4 and reading.unmatched == 0
    assert all(region.end for region in reading.regions)


def test_threads_are_apart(tmp_path):
    (reading,), _ = run_started(
        tmp_path,
        """
        import threading
        shared = ks.profile_operation("shared")
        def work(number):
            own = ks.profile_operation(f"own {number}")
            for _ in range(500):
                with own, shared:
                    pass
        threads = [threading.Thread(target=work, args=(i,)) for i in range(24)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        """,
    )
    assert reading.count("shared") == 12000 and reading.unmatched == 0
    for number in range(24):
        assert reading.count(f"own {number}") == 500
        tids = {r.tid for r in reading.regions if r.parent and r.parent.name == f"own {number}"}
        assert len(tids) == 1


TASKS = """
import asyncio, contextvars
region = ks.profile_operation("task")
@ks.profile_operation("fetch")
async def fetch(number, depth):
    with ks.profile_operation(f"level {number}.{depth}"):
        await asyncio.sleep(0)
        if depth:
            await fetch(number, depth - 1)
async def work(number):
    for _ in range(10):
        with region:
            await fetch(number, 3)
async def main():
    with ks.profile_operation("main"):
        await asyncio.gather(*(work(i) for i in range(30)))
        shared = contextvars.copy_context()
        if sys.version_info >= (3, 11):
            tasks = [asyncio.create_task(work(i), context=shared) for i in range(30, 50)]
            await asyncio.gather(*tasks)
with ks.profile_operation("before"):
    asyncio.run(main())
with ks.profile_operation("after"):
    pass
"""


def test_tasks_are_apart(tmp_path):
    (reading,), _ = run_started(tmp_path, TASKS)
    assert reading.unmatched == 0 and reading.count("task") == 500
    assert reading.count("fetch") == 500 * 4
    tracks = {}
    for region in reading.regions:
        assert region.end
        if region.name.startswith("level"):
            number = region.name.split()[1].split(".")[0]
            tracks.setdefault(number, set()).add(region.track)
            # Each is in the one above it, of its own task.
            assert [name for name in region.path if name.startswith("level")] == [
                f"level {number}.{depth}" for depth in range(3, int(region.name[-1]) - 1, -1)
            ]
    assert len(tracks) == 50 and all(len(found) == 1 for found in tracks.values())
    assert len(set.union(*tracks.values())) == 50
    assert {r.track for r in reading.regions if r.name in ("before", "after")} == {0}


def test_generators_count_while_they_run(tmp_path):
    (reading,), out = run_started(
        tmp_path,
        """
        @ks.profile_operation("generator")
        def numbers(count):
            try:
                for i in range(count):
                    got = yield i
                    if got:
                        print("got", got)
            except ValueError as error:
                yield f"caught {error}"
            finally:
                print("closed")
            return "done"
        def outer():
            print("returned", (yield from numbers(2)))
        for i in outer():
            with ks.profile_operation("consumer"):
                print(i)
        g = numbers(5)
        next(g), print(g.send("word")), print(g.throw(ValueError("thrown")))
        g.close()
        g = numbers(5)
        next(g)
        del g
        """,
    )
    assert out.split("\n")[:-1] == [
        "0",
        "1",
        "closed",
        "returned done",
        "got word",
        "1",
        "caught thrown",
        "closed",
        "closed",
    ]
    assert all(r.parent is None and r.end for r in reading.regions)
    assert reading.count("generator") == 3 + 4 + 2 and reading.count("consumer") == 2


def test_async_generators(tmp_path):
    (reading,), out = run_started(
        tmp_path,
        """
        import asyncio
        @ks.profile_operation("numbers")
        async def numbers(count):
            try:
                for i in range(count):
                    await asyncio.sleep(0)
                    got = yield i
                    if got:
                        print("got", got)
            except ValueError as error:
                yield f"caught {error}"
            finally:
                print("closed")
        async def main():
            async for i in numbers(2):
                with ks.profile_operation("consumer"):
                    print(i)
            g = numbers(5)
            await anext(g)
            print(await g.asend("word"))
            print(await g.athrow(ValueError("thrown")))
            await g.aclose()
        asyncio.run(main())
        """,
    )
    lines = ["0", "1", "closed", "got word", "1", "caught thrown", "closed"]
    assert out.split("\n")[:-1] == lines
    assert all(r.parent is None and r.end for r in reading.regions)
    assert reading.count("numbers") == 3 + 4 and reading.count("consumer") == 2


def test_decorated_functions_are_of_their_kind(ks):
    region = ks.profile_operation("x")

    @region
    def plain(a: int, *b, c=3, **d) -> str:
        """Doc."""
        return (a, b, c, d)

    @region
    async def coroutine(a, b=2):
        return a + b

    @region
    def generator(a):
        yield a

    @region
    async def async_generator(a):
        yield a

    assert str(inspect.signature(plain)) == "(a: int, *b, c=3, **d) -> str"
    assert (plain.__name__, plain.__doc__, plain.__module__) == ("plain", "Doc.", __name__)
    assert inspect.isfunction(plain) and inspect.unwrap(plain) is plain.__wrapped__
    assert plain(1, 2, c=4, e=5) == (1, (2,), 4, {"e": 5})
    assert inspect.iscoroutinefunction(coroutine) and asyncio.iscoroutinefunction(coroutine)
    assert asyncio.run(coroutine(1)) == 3
    assert inspect.isgeneratorfunction(generator) and list(generator(5)) == [5]
    assert inspect.isasyncgenfunction(async_generator)

    class Holder:
        @region
        def method(self, a):
            return self, a

        @region
        @staticmethod
        def static(a):
            return a

        @classmethod
        @region
        def of_class(cls):
            return cls

    holder = Holder()
    assert holder.method(1) == (holder, 1) and Holder.static(2) == 2
    assert holder.of_class() is Holder
    for wrong in (3, Holder):
        with pytest.raises(TypeError, match="decorates functions"):
            region(wrong)
    with pytest.raises(TypeError):
        region(plain, plain)


def test_values_counters_and_markers(tmp_path):
    (reading,), out = run_started(
        tmp_path,
        """
        outer, inner = ks.profile_operation("outer"), ks.profile_operation("inner")
        with outer:
            with inner:
                inner.set("batch", 32)
                outer.set("loss", 0.25)
                inner.set("file", "grün \\ud800")
                ks.marker("saved", "custom", path="a", size=3, category_of="custom")
            outer.set("big", 2**70)
            outer.set("least", -(2**63))
            outer.set("yes", True)
        tokens = ks.counter("tokens", "tokenization", unit="tokens")
        tokens.add(5), tokens.add(-7), tokens.add(0.5), tokens.set(9)
        print(tokens.value, tokens.unit, ks.counter("c").value)
        ks.marker(name="by keyword", category="mine", x=1)
        ks.marker("long" * 3000)
        """,
    )
    outer, inner = reading.regions
    assert inner.values == {"batch": 32, "file": "grün \\ud800"}
    assert outer.values == {"loss": 0.25, "big": 2.0**70, "least": -(2**63), "yes": 1}
    assert reading.counters == [("tokens", 5), ("tokens", -2), ("tokens", -1.5), ("tokens", 9)]
    assert out == "9 tokens 0\n"
    assert reading.units == {("tokens", "tokenization"): "tokens"}
    saved, keyword, long = reading.marks
    assert (saved.name, saved.category) == ("saved", "custom")
    assert saved.values == {"path": "a", "size": 3, "category_of": "custom"}
    assert (keyword.name, keyword.category, keyword.values) == ("by keyword", "mine", {"x": 1})
    assert long.name == "long" * 250


@pytest.mark.parametrize(
    "call, error",
    [
        ("ks.profile_operation(3)", "name must be a str, not int"),
        ("ks.profile_operation('a', None)", "category must be a str, not NoneType"),
        ("ks.profile_operation()", "name"),
        ("ks.profile_operation('a').set('k', [])", "value must be an int, a float or a str"),
        ("ks.profile_operation('a').set(1, 1)", "key must be a str"),
        ("ks.profile_operation('a').set('k')", "takes a key and a value"),
        ("ks.counter('a').add('1')", "value must be an int or a float"),
        ("ks.counter('a', unit=1)", "unit must be a str"),
        ("ks.marker()", "needs a name"),
        ("ks.marker('a', 'b', 'c')", "values by keyword"),
        ("ks.marker('a', x=None)", "value must be an int"),
    ],
)
def test_wrong_arguments_are_named_on_and_off(ks, tmp_path, call, error):
    with pytest.raises(TypeError, match=error):
        eval(call)
    source = f"try:\n    {call}\nexcept TypeError as error:\n    print(error)"
    _, out = run_started(tmp_path, source)
    assert error in out


def test_recording_starts_and_stops(tmp_path):
    _, out = run(
        tmp_path,
        """
        import sys
        import kinetoscope as ks
        region = ks.profile_operation("x")
        with region:
            pass
        print(ks.is_recording(), ks.recording_path())
        first = ks.start_recording(sys.argv[1], max_bytes=1 << 24)
        print(ks.is_recording(), first == ks.recording_path() == ks.start_recording("/nowhere"))
        with region:
            pass
        ks.stop_recording()
        print(ks.is_recording(), ks.recording_path() == first)
        with region:
            pass
        second = ks.start_recording(sys.argv[1])
        for _ in range(2):
            with region:
                pass
        print(second != first)
        for folder, size, kind in (("/proc/none", 1 << 24, OSError), (sys.argv[1], 5, ValueError)):
            ks.stop_recording()
            try:
                ks.start_recording(folder, size)
            except kind as error:
                print(kind.__name__)
        try:
            ks.start_recording("/proc/self")
        except ks.RecordingError as error:
            print("refused", isinstance(error, RuntimeError), len(str(error)) > 10)
        assert "torch" not in sys.modules
        """,
    )
    assert out.split("\n")[:-1] == [
        "False None",
        "True True",
        "False True",
        "True",
        "OSError",
        "ValueError",
        "refused True True",
    ]
    counts = sorted(Reading(path).count("x") for path in (tmp_path / "recordings").glob("*.ksrec"))
    assert counts == [1, 2]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_have_files_of_their_own(tmp_path, method):
    readings, _ = run(
        tmp_path,
        f"""
        import multiprocessing, os, sys
        import kinetoscope as ks
        region = ks.profile_operation("work")
        @region
        def work(number):
            ks.counter("number").set(number)
        def first(number):
            ks.start_recording(sys.argv[1] if len(sys.argv) > 1 else os.environ["FOLDER"])
            work(number)
        if __name__ == "__main__":
            os.environ["FOLDER"] = sys.argv[1]
            ks.start_recording(sys.argv[1])
            work(-1)
            context = multiprocessing.get_context({method!r})
            children = [context.Process(target=first, args=(i,)) for i in range(4)]
            [child.start() for child in children]
            [child.join() for child in children]
            assert all(child.exitcode == 0 for child in children)
        """,
    )
    assert len(readings) == 5 and len({reading.pid for reading in readings}) == 5
    assert sorted(reading.counters[0][1] for reading in readings) == [-1, 0, 1, 2, 3]
    for reading in readings:
        assert reading.count("work") == 1 and reading.unmatched == 0 and reading.state == 1


def test_fork_keeps_to_its_parent(tmp_path):
    readings, _ = run_started(
        tmp_path,
        """
        import os
        region = ks.profile_operation("both")
        with region:
            pass
        child = os.fork()
        for _ in range(3 if child else 1500):
            with region:
                pass
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """,
    )
    by_parent = sorted(readings, key=lambda reading: reading.count("both"))
    assert [reading.count("both") for reading in by_parent] == [4, 1500]
    assert by_parent[1].parent_pid == by_parent[0].pid


def test_ranks_are_noted(tmp_path):
    (reading,), _ = run_started(tmp_path, "ks.marker('x')", env={"RANK": "3"})
    assert reading.rank == 3


@pytest.mark.torch
def test_loader_workers_are_named(tmp_path):
    readings, _ = run_started(
        tmp_path,
        """
        import torch
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            @ks.profile_operation("fetch", ks.categories.DATA_LOADING)
            def __getitem__(self, i):
                return i
        loader = torch.utils.data.DataLoader(Data(), num_workers=2)
        with ks.profile_operation("epoch"):
            print(sum(int(batch) for batch in loader))
        """,
    )
    workers = [reading for reading in readings if reading.count("fetch")]
    assert sorted(reading.notes["worker"] for reading in workers) == ["0", "1"]
    assert sum(reading.count("fetch") for reading in workers) == 8
    assert all(reading.state == 1 for reading in readings)


KILLED_WORKERS = """
import os, signal, sys, torch
import kinetoscope as ks

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, i):
        ks.start_recording(os.environ["FOLDER"])
        for _ in range(10):
            with ks.profile_operation("fetch", ks.categories.DATA_LOADING):
                pass
        if i == 20:
            if sys.argv[3] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(3)
        return i

if __name__ == "__main__":
    os.environ["FOLDER"] = sys.argv[1]
    ks.start_recording(sys.argv[1])
    ks.marker("here")
    loader = torch.utils.data.DataLoader(
        Data(), num_workers=3, multiprocessing_context=sys.argv[2])
    for batch in loader:  # ends in one of several ways, and not always here
        pass
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    "method, how", [("fork", "kill"), ("fork", "exit"), ("spawn", "kill"), ("forkserver", "exit")]
)
def test_workers_that_die_are_named(tmp_path, method, how):
    """Worker 2 of three dies at sample 20, and the loader ends the others: each had said who it is
    before it did anything."""
    readings, _ = run(tmp_path, KILLED_WORKERS, words=[method, how], status=None)
    workers = {reading.notes["worker"]: reading for reading in readings if reading.count("fetch")}
    assert set(workers) == {"0", "1", "2"} and len(readings) == 4
    assert workers["2"].state == 0, "it ended without a word"
    assert all("worker" not in reading.notes for reading in readings if reading.marks)
    found = set()
    for path in (tmp_path / "recordings").glob("*.ksrec"):
        (source,) = json.loads(kscope("report", "--json", path))["inputs"]
        sql = json.loads(kscope("query", "--json", path, "select worker from source"))
        assert sql["rows"] == [[source.get("worker")]]
        found.add(source.get("worker"))
    assert found == {0, 1, 2, None}


TRAINING = """
import hashlib, os, sys, torch
import kinetoscope as ks
if os.environ.get("RECORDS"):
    ks.start_recording(sys.argv[1])
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(), torch.nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters())
loss_tokens = ks.counter("tokens")
@ks.profile_operation("step", ks.categories.TRAINING_LOOP)
def step(batch):
    with ks.profile_operation("forward", ks.categories.FORWARD_PASS) as region:
        loss = model(batch).square().mean()
        region.set("loss", loss.item())
    with ks.profile_operation("backward", ks.categories.BACKWARD_PASS):
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
    loss_tokens.add(len(batch))
for _ in range(60):
    step(torch.randn(8, 16))
state = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print(hashlib.sha256(state).hexdigest(), torch.rand(1).item())
"""


@pytest.mark.torch
def test_training_gives_the_same_bits(tmp_path):
    none, plain = run(tmp_path, TRAINING)
    (reading,), recorded = run(tmp_path, TRAINING, env={"RECORDS": "1"})
    assert none == [] and plain == recorded
    assert reading.count("step") == 60 and reading.counters[-1] == ("tokens", 480)
    forward = next(region for region in reading.regions if region.name == "forward")
    assert forward.path == ("step", "forward") and forward.values["loss"] > 0


def test_objects_can_be_copied(ks):
    import copy
    import pickle

    region = ks.profile_operation("name", "category")
    for twin in (copy.deepcopy(region), pickle.loads(pickle.dumps(region))):
        assert (twin.name, twin.category) == ("name", "category")
        assert repr(twin) == "profile_operation('name', 'category')"
    counter = pickle.loads(pickle.dumps(ks.counter("n", "c", "u")))
    assert (counter.name, counter.category, counter.unit, counter.value) == ("n", "c", "u", 0)
    with pytest.raises(AttributeError):
        region.name = "other"


def test_nothing_leaks(tmp_path):
    run(
        tmp_path,
        """
        import sys, tracemalloc
        import kinetoscope as ks
        def use(count):
            for i in range(count):
                region = ks.profile_operation("x")
                with region:
                    region.set("key", i)
                    region.set("text", "same")
                ks.marker("m", a=1, b="c")
                ks.counter("c", unit="u").add(i)
                try:
                    region.set("key", [])
                except TypeError:
                    pass
        for is_on in (False, True):
            if is_on:
                ks.start_recording(sys.argv[1])
            use(100)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            use(5000)
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert grown < 20000, grown
        """,
    )


def test_a_sub_interpreter_is_refused(tmp_path):
    _, out = run(
        tmp_path,
        f"""
        try:
            import _xxsubinterpreters as sub
        except ImportError:
            import _interpreters as sub
        other = sub.create()
        try:
            sub.run_string(other, '''
        import sys
        sys.path.insert(0, {str(PYTHON)!r})
        import kinetoscope
        from kinetoscope import _extension
        print(_extension.extension.__name__, _extension.reason, flush=True)
        with kinetoscope.profile_operation("x"):
            pass
        ''')
        except Exception as error:
            print(error)
        """.replace("\n        ", "\n"),
    )
    assert "_without_extension" in out and "subinterpreter" in out.replace("-", "")


def test_a_run_records_every_process(tmp_path):
    """Of `kscope run --record regions`: parent, forked and spawned children; nothing without it."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys
            import kinetoscope as ks
            @ks.profile_operation("work", ks.categories.VALIDATION)
            def work():
                pass
            if __name__ == "__main__":
                work()
                for method in ("fork", "spawn"):
                    child = multiprocessing.get_context(method).Process(target=work)
                    child.start(), child.join()
                print(ks.is_recording(), "torch" in sys.modules)
            """
        )
    )
    kscope = os.environ.get("KSCOPE_BIN", ROOT / "build" / "kscope")
    for name, words in (("with", ["--record", "regions"]), ("without", [])):
        folder = tmp_path / name
        command = [kscope, "run", *words, "--out", folder, sys.executable, program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{bool(words)} False\n"
        readings = [Reading(path) for path in folder.glob("*.ksrec")]
        assert len(readings) == (3 if words else 0)
        assert all(reading.count("work") == 1 and reading.state == 1 for reading in readings)
        assert ("of 3 processes there are recorded: regions" in done.stderr) == bool(words)
    command = [kscope, "run", "--record", "all", sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 125 or done.returncode == 2
    assert "it takes regions, functions, samples and monitor" in done.stderr
