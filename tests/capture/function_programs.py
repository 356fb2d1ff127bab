"""Ten small programs whose calls two profilers count: what Python does with functions, each kind.

Each is a function without arguments that makes the same calls each time it runs. `threads` takes a
wrapper for the targets of its threads, so that a profiler of one thread can be started in each.
"""

import asyncio
import contextlib
import functools
import re
import threading


def work(times=2000):
    """Time that belongs to one function, so that times can be compared as well."""
    total = 0
    for i in range(times):
        total += i * i
    return total


def recursive():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def is_even(n):
        return True if n == 0 else is_odd(n - 1)

    def is_odd(n):
        return False if n == 0 else is_even(n - 1)

    def descend(n):
        work(20)
        return descend(n - 1) if n else None

    descend(100)
    return fib(14), is_even(300)


def generators():
    def count(n):
        try:
            for i in range(n):
                work(50)
                yield i
        finally:
            work(100)

    def chain(n):
        yield from count(n)
        answer = yield "more"
        yield answer

    def patient():
        while True:
            try:
                yield work(10)
            except KeyError:
                yield len("caught")

    total = sum(i for i in count(50))
    items = chain(10)
    for _ in range(11):
        next(items)
    items.send("answer")
    items.close()
    unfinished = count(10)
    next(unfinished)
    unfinished.close()
    waiting = patient()
    next(waiting)
    waiting.throw(KeyError())
    with contextlib.suppress(ValueError):
        waiting.throw(ValueError())
    list(zip(count(5), count(7), strict=False))
    return total


def coroutines():
    async def leaf(n):
        await asyncio.sleep(0)
        return work(100) + n

    async def ticker(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def fails():
        await asyncio.sleep(0)
        raise LookupError

    async def waits():
        await asyncio.get_running_loop().create_future()

    async def main():
        values = await asyncio.gather(*(leaf(i) for i in range(20)))
        async for i in ticker(10):
            values.append(i)
        await asyncio.gather(fails(), return_exceptions=True)
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return len(values)

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def exceptions():
    def deep(n):
        try:
            if n == 0:
                raise ValueError("deep")
            deep(n - 1)
        finally:
            work(20)

    def parse(text):
        try:
            return int(text)
        except ValueError:
            return None

    class Managed:
        def __enter__(self):
            return self

        def __exit__(self, *reason):
            return True

    for _ in range(20):
        with contextlib.suppress(ValueError):
            deep(10)
        parse("x"), parse("1")
        with Managed():
            raise KeyError
        with contextlib.suppress(TypeError):
            len(5)
        with contextlib.suppress(AttributeError):
            getattr(1, "nothing")  # noqa: B009 - a call of C that raises


def threads(wrap=None):
    def inner(n):
        return work(200) if n == 0 else inner(n - 1)

    def target():
        for i in range(20):
            inner(i % 5)
            sorted([3, 1, 2], key=lambda x: -x)

    running = []
    for _ in range(8):
        running.append(threading.Thread(target=wrap(target) if wrap else target))
        running[-1].start()
    for thread in running:
        thread.join()


def callbacks():
    class Key:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return self.value == other.value

        def __hash__(self):
            return hash(self.value)

        def __lt__(self, other):
            return self.value < other.value

    def negative(x):
        return -work(30) - x

    items = list(range(100))
    sorted(items, key=negative)
    items.sort(key=negative)
    max(items, key=negative)
    list(map(negative, filter(lambda x: x % 2, items)))
    functools.reduce(lambda a, b: a + b, items)
    re.sub("a+", lambda match: match.group().upper(), "banana")
    {Key(i % 10): i for i in items}
    min([Key(i) for i in items])
    return "".join(str(i) for i in items).count("1")


def comprehensions():
    # No two on one line: cProfile keeps only one of two functions that have one name and place.
    table = [
        [work(5) * x for x in range(20)]  # inner
        for _ in range(20)
    ]
    flat = {str(v) for row in table for v in row}
    pairs = {len(k): [c for c in k if c.isdigit()] for k in flat}
    found = any(x > 3 for x in range(10))
    return found, sum(len(v) for v in pairs.values())


def class_bodies():
    class Meta(type):
        def __new__(mcs, name, bases, body):
            return super().__new__(mcs, name, bases, body)

    class Field:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, thing, owner=None):
            return work(20)

    class Base(metaclass=Meta):
        field = Field()
        squares = [i * i for i in range(5)]

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)

        class Inner:
            value = len("inner")

    for _ in range(5):

        class Child(Base):
            def __init__(self):
                super().__init__()
                self.value = self.field

            @property
            def double(self):
                return 2 * self.value

        child = Child()
        seen = child.double, child.Inner.value, child.field
    return seen


def decorators():
    def traced(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @functools.cache
    def cached(n):
        return work(50) + (cached(n - 1) if n else 0)

    @contextlib.contextmanager
    def managed():
        yield work(20)

    @functools.singledispatch
    def general(x):
        return 0

    @general.register
    def _(x: int):
        return work(x)

    class Things:
        @traced
        def method(self, n):
            return work(n)

        @classmethod
        def made(cls):
            return cls()

        @staticmethod
        def plain(n=5):
            return traced(work)(n)

    for i in range(20):
        cached(i)
        with managed():
            general(10), general("x")
        Things.made().method(30)
        Things.plain()
        functools.partial(work, 15)()


@functools.cache
def training():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return torch, model, optimizer, torch.randn(8, 16), torch.randint(4, (8,))


def training_steps():
    torch, model, optimizer, inputs, targets = training()
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


PROGRAMS = (
    recursive,
    generators,
    coroutines,
    exceptions,
    threads,
    callbacks,
    comprehensions,
    class_bodies,
    decorators,
    training_steps,
)
