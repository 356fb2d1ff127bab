"""Programs for the stack sampler whose every legal stack is known: a function may be called from a
line only if that line names it. Runs under any interpreter that the sampler knows.

Use: sampler_programs.py MODULE_FOLDER OUT_FOLDER PROGRAM SECONDS RATE_HZ

Prints the path of the recording and the sampler's counts.
"""

import json
import os
import sys
import threading
import time

STOP = threading.Event()
FORKED_SAMPLES = 300
FORKED_MORE_S = 20


# Two threads whose functions take about a microsecond, so that stacks change all the time.


def a_leaf():
    return 1


def a_other():
    return 2


def a_middle(number):
    return a_leaf() + a_other() + number


def a_low(number):
    return a_middle(number)


def a_loop(until):
    while time.monotonic() < until:
        for i in range(100):
            a_leaf()
            a_middle(i)
            a_low(i)
            a_other()


def b_leaf():
    return 1


def b_method(number):
    return b_leaf() + number


def b_first(number):
    return b_method(number)


def b_second(number):
    return b_leaf() + b_method(number)


def b_loop(until):
    while time.monotonic() < until:
        for i in range(100):
            b_first(i)
            b_second(i)
            b_leaf()


def hostile(until):
    thread = threading.Thread(target=b_loop, args=(until,), name="second")
    thread.start()
    a_loop(until)
    thread.join()


# Generators, whose frames lie outside of the data stack.


def g_leaf(number):
    return number + 1


def g_inner(count):
    for i in range(count):
        yield g_leaf(i)


def g_outer(count):
    yield from g_inner(count)


def g_doubled(count):
    for i in g_outer(count):
        yield 2 * g_leaf(i)


def g_loop(until):
    total = 0
    while time.monotonic() < until:
        for i in g_doubled(50):
            total += g_leaf(i)
        total += sum(g_inner(20))
    return total


def generators(until):
    g_loop(until)


# Recursion of a thousand frames that grows and shrinks.


def d_bottom():
    total = 0
    for i in range(2000):
        total += i
    return total


def d_down(count):
    return d_down(count - 1) if count else d_bottom()


def deep(until):
    sys.setrecursionlimit(3000)
    while time.monotonic() < until:
        d_down(1000)


# Objects: methods, properties, constructors, calls by C code.


class Thing:
    def __init__(self, number):
        self.number = o_check(number)

    @property
    def value(self):
        return o_check(self.number)

    def __getitem__(self, index):
        return o_check(index)

    def __call__(self, number):
        return o_check(number)


def o_check(number):
    return number + 1


def o_key(number):
    return o_check(number)


def objects(until):
    while time.monotonic() < until:
        thing = Thing(3)  # __init__
        thing.value  # noqa: B018
        thing[4]  # __getitem__
        thing(5)  # __call__
        sorted([3, 1, 2], key=o_key)


# Code objects that live for a moment: each says its number in all its names.


def made(until):
    number = 0
    while time.monotonic() < until:
        number += 1
        text = f"def leaf_{number}(): return {number}\n"
        text += f"def top_{number}(): return leaf_{number}() + leaf_{number}()\n"
        text += f"for i in range(20): top_{number}()\n"
        exec(compile(text, f"<made {number}>", "exec"), {})


# Two hundred threads that wait.


def parked():
    STOP.wait()


def many(until):
    threads = []
    for i in range(200):
        threads.append(threading.Thread(target=parked, name=f"parked {i}"))
        threads[-1].start()
    a_loop(until)
    STOP.set()
    for thread in threads:
        thread.join()


# Threads that come and go.


def c_work():
    return a_low(1) + a_middle(2)


def churn(until):
    while time.monotonic() < until:
        threads = []
        for _ in range(8):
            threads.append(threading.Thread(target=c_work))
            threads[-1].start()
        for thread in threads:
            thread.join()


# Two functions by two thirds and one third, and a thread that sleeps: shares must come out.


def s_spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def s_long():
    s_spin(0.02)


def s_short():
    s_spin(0.01)


def s_sleep(until):
    time.sleep(max(until - time.monotonic(), 0))


def shares(until):
    sleeper = threading.Thread(target=s_sleep, args=(until,), name="sleeper")
    sleeper.start()
    while time.monotonic() < until:
        s_long()
        s_short()
    sleeper.join()


# A child by fork goes on by itself. Both go on until the sampler has seen enough, which on a busy
# machine, where it gives way to others, takes longer.


def needs_more(until):
    from _kscope_sampler import StackSampler

    now = time.monotonic()
    return StackSampler().counts()["samples"] < FORKED_SAMPLES and now < until + FORKED_MORE_S


def forked(until):
    pid = os.fork()
    if pid == 0:
        a_loop(until)
        while needs_more(until):
            a_loop(time.monotonic() + 0.05)
        from _kscope_sampler import StackSampler, stop_recording

        StackSampler().stop()
        stop_recording()
        os._exit(0)
    b_loop(until)
    while needs_more(until):
        b_loop(time.monotonic() + 0.05)
    os.waitpid(pid, 0)


PROGRAMS = {
    "hostile": hostile,
    "generators": generators,
    "deep": deep,
    "objects": objects,
    "made": made,
    "many": many,
    "churn": churn,
    "shares": shares,
    "forked": forked,
}


def main(module_folder, out_folder, program, seconds, rate_hz):
    sys.path.insert(0, module_folder)
    import _kscope_sampler

    path = _kscope_sampler.start_recording(out_folder)
    sampler = _kscope_sampler.StackSampler(rate_hz=int(rate_hz))
    sampler.start()
    PROGRAMS[program](time.monotonic() + float(seconds))
    sampler.stop()
    _kscope_sampler.stop_recording()
    print(json.dumps({"path": path, "counts": sampler.counts()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
