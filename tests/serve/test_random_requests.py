"""Goal: no bytes end the server, make it grow, or leave a connection open. Method: requests made of
good and bad parts, and then changed at random places, ten thousand of them, or a million with
KSCOPE_TEST_SLOW."""

import os
import random
import socket
import time

from served_program import Served, wait_for, write_trace

COUNT = 1_000_000 if os.environ.get("KSCOPE_TEST_SLOW") else 10_000
GROWTH_BYTES_MAX = 16 << 20
SILENCE_SECONDS = 0.05
ANSWER = b"HTTP/1.1 "

METHODS = ["GET"] * 8 + [
    "HEAD",
    "HEAD",
    "POST",
    "POST",
    "OPTIONS",
    "PUT",
    "get",
    "",
    "G\0T",
    "X" * 99,
]
TARGETS = [
    "/",
    "/page.js",
    "/page.css",
    "/api/version",
    "/api/report?v=1",
    "/api/timeline?v=1",
    "/api/flame?v=1",
    "/api/memory?v=1",
    "/api/session",
    "/api/find?v=1",
    "/none",
    "//evil",
    "/%2e%2e/x",
    "*",
    "",
    "http://evil.example/",
    "/api/tile",
    "/api/report?v=99999999999999999999",
    "/\xc0\xae",
    "/\0",
]
VERSIONS = ["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/9.9", "HTTP/1.", "", "HTTP/2.0"]
NUMBERS = [
    "0",
    "1",
    "16",
    "1000000",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "00",
    "-9223372036854775808",
    "1e9",
    "",
    "255",
    "256",
    "4096",
    "3000000",
]


def header_of(rng, server):
    return rng.choice(
        [
            f"Origin: http://{server.host}",
            "Origin: null",
            f"Host: {server.host}",
            "Host: evil.example",
            "Connection: keep-alive",
            "Connection: close",
            "Content-Length: 5",
            "Content-Length: 99999999999",
            "Content-Length: -1",
            "Transfer-Encoding: chunked",
            "Upgrade: websocket",
            'If-None-Match: "1"',
            "Range: bytes=0-99999999999999999999",
            "Expect: 100-continue",
            "Sec-Fetch-Site: cross-site",
            f"Cookie: {server.cookie}; a=b",
            f"X-{rng.random()}: {'x' * rng.choice([0, 10, 5000, 20000])}",
            " folded",
            "no colon",
            ": nothing",
        ]
    )


def target_of(rng):
    if rng.random() < 0.6:
        return rng.choice(TARGETS)
    number = lambda: rng.choice(NUMBERS)  # noqa: E731
    tracks = ",".join(number() for _ in range(rng.randint(0, 4)))
    return f"/api/tile?v=1&start={number()}&end={number()}&parts={number()}&tracks={tracks}"


def request_of(rng, server):
    """Mostly good, since what is refused at once tries little."""
    lines = [f"{rng.choice(METHODS)} {target_of(rng)} {rng.choice(VERSIONS)}"]
    lines += [f"Host: {server.host}"] if rng.random() < 0.95 else []
    lines += [f"Cookie: {server.cookie}"] if rng.random() < 0.9 else []
    lines += [header_of(rng, server) for _ in range(rng.choice([0, 0, 0, 1, 2, 30]))]
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return data + (rng.randbytes(rng.choice([5, 32, 3000])) if rng.random() < 0.1 else b"")


def damage(rng, data):
    """Changes, doubles, cuts out or puts in some bytes."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
            case 2:
                del data[at : at + rng.randint(1, 20)]
            case _:
                data[at:at] = data[rng.randrange(len(data) + 1) :][:40]
    return bytes(data)


def connection_of(rng, server):
    """What is sent on one connection."""
    data = b"".join(request_of(rng, server) for _ in range(rng.randint(1, 6)))
    return damage(rng, data) if rng.random() < 0.4 else data


def throw(server, data):
    """Sends all of it and reads to the end, or until nothing comes: what was damaged may be the
    beginning of something longer. Gives how many requests that was."""
    out = b""
    with server.connect(timeout=SILENCE_SECONDS) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while more := sock.recv(1 << 20):
                out += more
        except OSError:
            pass  # nothing came, or the server was through with it before we were
    return max(1, out.count(ANSWER)), out


def test_random_requests(tmp_path):
    path = tmp_path / "small.pt.trace.json"
    write_trace(path)
    rng = random.Random(20260101)
    with Served("--no-cache", path) as server:
        server.log_in()
        fds = memory = thrown = connections = 0
        kinds = {}
        begin = time.monotonic()
        while thrown < COUNT:
            if connections == 500:  # what is kept for the next request has its size now
                fds, memory = server.fd_count(), server.memory_bytes()
            data = connection_of(rng, server)
            count, out = throw(server, data)
            status = out[9:12]
            kinds[status] = kinds.get(status, 0) + 1
            thrown += count
            connections += 1
        seconds = time.monotonic() - begin
        print(f"{thrown} requests, {connections} connections, {seconds:.0f} s, {kinds}")
        assert server.is_alive()
        assert server.version() == 1
        assert {b"200", b"400", b"403", b"404", b"405"} <= set(kinds)
        assert wait_for(lambda: server.fd_count() <= fds + 1)
        assert server.memory_bytes() < memory + GROWTH_BYTES_MAX
        print(f"memory {memory} to {server.memory_bytes()} bytes, {fds} to {server.fd_count()} fds")
