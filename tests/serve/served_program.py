"""A running `kscope view`, and bytes sent to it as they are: no library of HTTP, which would refuse
to send what a test wants to send."""

import gzip
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
ADDRESS = re.compile(r"http://(\S+?)(?::(\d+))?/#token=([0-9a-f]{32})\n")

# A page of three steps on two threads, with a name in each step.
STEP_US = 1000


def trace_document(steps=3, name="aten::linear"):
    events = []
    for step in range(steps):
        start = 1000.0 + step * STEP_US
        events += [
            event(f"ProfilerStep#{step}", start, STEP_US - 10, category="user_annotation"),
            event(name, start + 10, 800),
            event("aten::addmm", start + 20, 700),
            event("aten::copy_", start + 30, 5, thread=2),
        ]
    return {"schemaVersion": 1, "traceEvents": events}


def event(name, start_us, dur_us, thread=1, category="cpu_op"):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start_us,
        "dur": dur_us,
        "args": {},
    }


def write_trace(path, **more):
    """Appears whole, as a profiler's file does for who looks at the right time."""
    data = json.dumps(trace_document(**more)).encode()
    fresh = path.with_name(path.name + ".fresh")
    fresh.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    fresh.rename(path)


class Answer:
    """Status line, headers and body of one answer."""

    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.pairs = [line.split(": ", 1) for line in lines[1:]]
        self.headers = {key.lower(): value for key, value in self.pairs}
        self.body = body

    def json(self):
        return json.loads(self.body)


def take_answer(data, is_head=False):
    """The first answer of `data` and what follows it; None when it is not whole."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        return None, data
    answer = Answer(head, b"")
    no_body = is_head or answer.status in (204, 304)
    size = 0 if no_body else int(answer.headers.get("content-length", "0"))
    if len(rest) < size:
        return None, data
    answer.body = rest[:size]
    return answer, rest[size:]


class Served:
    """`with Served(path) as server`: ends it at the end."""

    def __init__(self, *words, env=None, start_new_session=False):
        self.process = subprocess.Popen(
            [PROGRAM, "view", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            start_new_session=start_new_session,
        )
        self.path = None
        self.errors = None
        line = self.process.stdout.readline().decode()
        found = ADDRESS.fullmatch(line)
        if not found:
            self.process.kill()
            raise AssertionError(line + self.process.stderr.read().decode())
        self.url = line.strip()
        self.name, port, self.token = found.groups()
        self.port = int(port or 0)
        self.host = f"127.0.0.1:{self.port}" if port else "localhost"
        self.cookie = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        if self.errors is None:
            self.process.stdout.close()
            self.errors = self.process.stderr.read().decode()
            self.process.stderr.close()
        return self.process.wait(timeout=20)

    def connect(self, address="127.0.0.1", timeout=10):
        if self.path:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(timeout)
            sock.connect(str(self.path))
            return sock
        return socket.create_connection((address, self.port), timeout=timeout)

    def talk(self, data, address="127.0.0.1", timeout=10):
        """All that comes back before the server ends the connection, or says nothing for long."""
        with self.connect(address, timeout) as sock:
            return send_and_read(sock, data, timeout)

    def ask(self, target, *headers, method="GET", body=b"", host=None, cookie=True, **more):
        """One request with a plain head; gives its answer."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host or self.host}", *headers]
        if cookie and self.cookie:
            lines.append(f"Cookie: {self.cookie}")
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        lines.append("Connection: close")
        data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
        answer, _ = take_answer(self.talk(data, **more), is_head=method == "HEAD")
        return answer

    def log_in(self):
        answer = self.ask("/api/session", method="POST", body=self.token.encode())
        assert answer.status == 204
        self.cookie = answer.headers["set-cookie"].split(";")[0]
        return answer

    def version(self):
        return self.ask("/api/version").json()["version"]

    def is_alive(self):
        return self.process.poll() is None and self.ask("/").status == 200

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def send_and_read(sock, data, timeout=10):
    """Sends as far as it gets, since a server may end a connection early."""
    out = b""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        writing = [sock] if data else []
        left = max(0, until - time.monotonic())
        readable, writable, _ = select.select([sock], writing, [], min(left, 0.5 if data else 2))
        try:
            if writable:
                data = data[sock.send(data[:65536]) :]
            if readable:
                more = sock.recv(65536)
                if not more:
                    break
                out += more
        except (ConnectionError, TimeoutError):
            break
        if not readable and not writable:
            break
    return out


def wait_for(condition, seconds=15):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    return condition()
