"""Goal: whatever the bytes of a request are, the answer is the right one or a refusal, and the next
reader of the connection is never confused. Method: raw bytes."""

import re
import time

import pytest
from served_program import Served, send_and_read, take_answer, write_trace


def request(server, line, *headers, body=b""):
    lines = (line, f"Host: {server.host}", f"Cookie: {server.cookie}", *headers)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def answers(server, data):
    """All answers of one connection."""
    left = server.talk(data, timeout=4)
    found = []
    while left:
        answer, left = take_answer(left)
        if answer is None:
            break
        found.append(answer)
    return found


def statuses(server, data):
    return [answer.status for answer in answers(server, data)]


# ---------------------------------------------------------------- targets


@pytest.mark.parametrize(
    "target",
    [
        "//evil",
        "//evil.example/",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e%5c",
        "/page.js%00.html",
        "/%c0%ae%c0%ae/etc/passwd",
        "/\xc0\xae\xc0\xae/etc/passwd",
        "/\xed\xa0\x80",
        "/api/%72eport?v=1",
        "/page.js/",
        "/PAGE.JS",
        "/./page.js",
        "/page.js;x",
        "/page.js#x",
        "/page.js\\",
        "/etc/passwd",
        "/index.html",
        "/small.pt.trace.json",
        "/api/report/../report?v=1",
        "/" + "a" * 5000,
    ],
)
def test_only_what_there_is_is_served(served, target):
    (status,) = statuses(served, request(served, f"GET {target} HTTP/1.1", "Connection: close"))
    assert status in (400, 404, 414)
    assert served.is_alive()


def test_nul_in_a_target(served):
    data = request(served, "GET /api/version\0/../../etc/passwd HTTP/1.1", "Connection: close")
    found = answers(served, data)
    assert [each.status for each in found] in ([], [400], [404], [200])
    assert all(b"root:" not in each.body for each in found)
    assert statuses(served, request(served, "GET / HTTP/1.1", "Origin: nu\0ll"))[:1] in (
        [],
        [400],
        [403],
    )


def test_the_absolute_form_of_a_target_is_refused(served):
    for target in (f"http://{served.host}/", "http://evil.example/", "evil.example:80", "*"):
        data = request(served, f"GET {target} HTTP/1.1", "Connection: close")
        assert statuses(served, data) == [400]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "v=1",
        "v=1&start=0&end=1000&parts=16",
        "v=1&start=0&end=1000&parts=16&tracks=",
        "v=1&start=0&end=1000&parts=16&tracks=0,",
        "v=1&start=0&end=1000&parts=16&tracks=0&x=1",
        "start=0&end=1000&parts=16&tracks=0&v=1",
        "v=1&v=1&start=0&end=1000&parts=16&tracks=0",
        "v=1&start=1000&end=0&parts=16&tracks=0",
        "v=1&start=0&end=0&parts=16&tracks=0",
        "v=1&start=00&end=1000&parts=16&tracks=0",
        "v=1&start=-0&end=1000&parts=16&tracks=0",
        "v=1&start=0x0&end=1000&parts=16&tracks=0",
        "v=1&start=1e3&end=10000&parts=16&tracks=0",
        "v=1&start=0&end=9223372036854775808&parts=16&tracks=0",
        "v=1&start=-9223372036854775808&end=0&parts=16&tracks=0",
        "v=1&start=0&end=99999999999999999999999&parts=16&tracks=0",
        "v=1&start=0&end=1000&parts=0&tracks=0",
        "v=1&start=0&end=1000&parts=15&tracks=0",
        "v=1&start=0&end=1000&parts=8193&tracks=0",
        "v=1&start=0&end=1000&parts=16&tracks=99",
        "v=1&start=0&end=1000&parts=16&tracks=256",
        "v=1&start=0&end=1000&parts=16&tracks=-1",
        "v=1&start=0&end=1000&parts=16&tracks=" + ",".join(["0"] * 257),
    ],
)
def test_a_tile_out_of_range_is_refused(served, query):
    assert served.ask(f"/api/tile?{query}").status == 400


def test_the_largest_range_is_answered(served):
    ends = "start=-9223372036854775807&end=9223372036854775807"
    answer = served.ask(f"/api/tile?v=1&{ends}&parts=8192&tracks=0,1,2")
    assert answer.status == 200
    counts = [sum(track["levels"][0]["count"]) for track in answer.json()["tracks"]]
    assert counts == [3, 9, 3]


def test_a_range_of_bytes_changes_nothing(served):
    whole = served.ask("/page.css").body
    for text in ("bytes=0-1", "bytes=99999999999999999999-", "bytes=-1", "bytes=0-,0-,0-", "x"):
        answer = served.ask("/page.css", f"Range: {text}")
        assert answer.status == 200
        assert answer.body == whole


def test_another_version_is_a_conflict(served):
    for target in ("/api/report?v=2", "/api/tile?v=7&start=0&end=9&parts=16&tracks=0"):
        assert served.ask(target).status == 409
    for query in ("", "?", "?v=", "?v=0", "?v=-1", "?v=1&v=1", "?v=01", "?w=1", "?v=1x"):
        assert served.ask(f"/api/report{query}").status == 400


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize(
    "target",
    ["/", "/page.js", "/page.css", "/api/version", "/api/report?v=1"],
)
def test_head_is_get_without_the_body(served, target):
    full = served.ask(target)
    head = served.ask(target, method="HEAD")
    assert (head.status, head.body) == (full.status, b"")
    assert head.headers["content-length"] == str(len(full.body))


@pytest.mark.parametrize(
    "method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "FOO", "PROPFIND"]
)
def test_other_methods_are_refused(served, method):
    answer = served.ask("/api/version", "Access-Control-Request-Method: GET", method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert not [key for key, _ in answer.pairs if key.lower().startswith("access-control-")]


def test_post_is_for_the_session_alone(served):
    for target in ("/", "/api/report?v=1", "/api/version", "/none"):
        assert served.ask(target, method="POST", body=b"x").status == 405
    assert served.ask("/api/session").status == 404


# ---------------------------------------------------------------- sizes


def test_ten_thousand_headers_are_refused(served):
    lines = [f"X-{i}: {i}" for i in range(10000)]
    found = statuses(served, request(served, "GET / HTTP/1.1", *lines))
    assert found in ([431], [413], [])
    assert served.is_alive()


def test_a_head_of_more_than_16_kib_is_refused(served):
    for size, good in ((12 * 1024, True), (17 * 1024, False)):
        line = f"X-Long: {'x' * size}"
        found = statuses(served, request(served, "GET / HTTP/1.1", line, "Connection: close"))
        assert (found == [200]) == good
        assert good or found in ([431], [413])


def test_a_body_of_more_than_1_mib_is_refused_unread(served):
    for size in (1024 * 1024 + 1, 10**18, 10**30):
        data = request(served, "POST /api/session HTTP/1.1", f"Content-Length: {size}")
        assert statuses(served, data) in ([413], [400])
    body = b"x" * (1024 * 1024)
    assert served.ask("/api/session", method="POST", body=body).status == 403


# ---------------------------------------------------------------- one connection, several requests


def test_requests_in_one_go_are_answered_in_order(served):
    data = b"".join(
        request(served, f"GET {target} HTTP/1.1")
        for target in ("/page.css", "/api/version", "/page.css")
    )
    data += request(served, "GET /none HTTP/1.1", "Connection: close")
    found = answers(served, data)
    assert [each.status for each in found] == [200, 200, 200, 404]
    assert found[0].body == found[2].body
    assert found[1].json() == {"version": 1}


SMUGGLED = b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("line", "headers", "body"),
    [
        ("POST /api/session", ["Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
        (
            "POST /api/session",
            ["Transfer-Encoding: chunked", "Content-Length: 5"],
            b"0\r\n\r\n" + SMUGGLED,
        ),
        (
            "POST /api/session",
            ["Content-Length: 5", "Transfer-Encoding: xchunked"],
            b"0\r\n\r\n" + SMUGGLED,
        ),
        ("POST /api/session", ["Transfer-Encoding : chunked"], b"0\r\n\r\n" + SMUGGLED),
        ("POST /api/session", ["Content-Length: 0", "Content-Length: 5"], SMUGGLED),
        ("POST /api/session", ["Content-Length: +5"], SMUGGLED),
        ("POST /api/session", ["Content-Length: 0x5"], SMUGGLED),
        ("POST /api/session", ["Content-Length: 5, 5"], SMUGGLED),
        ("POST /api/session", ["Content-Length: -1"], SMUGGLED),
        ("GET /", ["Content-Length: 5"], b"xxxxx" + SMUGGLED),
        ("GET /", ["Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
    ],
)
def test_no_request_is_smuggled_in_a_body(served, line, headers, body):
    found = statuses(served, request(served, f"{line} HTTP/1.1", *headers, body=body))
    assert len(found) <= 1
    assert found in ([], [400], [413])
    assert served.is_alive()


def test_a_refusal_ends_the_connection(served):
    data = request(served, "GET /none HTTP/1.1", "Origin: null") + request(served, "GET / HTTP/1.1")
    assert statuses(served, data) == [403]


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"\0" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / FTP/1.1\r\n\r\n",
        b"GET  /  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\n Host: folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET / HTTP/1.1\r\n: empty\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_no_data(served, data):
    left = served.talk(data + b"\r\n\r\n", timeout=1)
    assert b"HTTP/1.1 200" not in left
    assert served.is_alive()


# ---------------------------------------------------------------- time and number


def test_a_request_that_dribbles_in_is_cut_off_after_ten_seconds(tmp_path):
    path = tmp_path / "small.pt.trace.json"
    write_trace(path)
    with Served("--no-cache", path) as server, server.connect() as head, server.connect() as body:
        begin = time.monotonic()
        head.sendall(f"GET / HTTP/1.1\r\nHost: {server.host}\r\nX: ".encode())
        text = f"POST /api/session HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 99\r\n\r\n"
        body.sendall(text.encode())
        ended = {}
        while len(ended) < 2 and time.monotonic() < begin + 15:
            for name, sock in (("head", head), ("body", body)):
                if name not in ended and not dribble(sock):
                    ended[name] = time.monotonic() - begin
            time.sleep(0.5)
            assert server.ask("/").status == 200  # others are served meanwhile
        assert sorted(ended) == ["body", "head"]
        assert all(9 < seconds < 13 for seconds in ended.values()), ended


def dribble(sock):
    try:
        sock.sendall(b"x")
        sock.settimeout(0.01)
        return sock.recv(100) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def test_no_more_than_64_connections_and_the_rest_wait(tmp_path):
    path = tmp_path / "small.pt.trace.json"
    write_trace(path)
    with Served("--no-cache", path) as server:
        before = server.fd_count()
        socks = [server.connect() for _ in range(70)]
        time.sleep(1)
        assert server.fd_count() - before <= 64
        for sock in socks[:20]:
            sock.close()
        assert server.ask("/").status == 200
        for sock in socks[20:]:
            sock.close()
        time.sleep(0.6)
        assert server.fd_count() <= before + 1


def test_versions_are_told_in_a_few_bytes(served):
    answer = served.ask("/api/version")
    assert answer.json() == {"version": 1}
    again = served.ask("/api/version", f"If-None-Match: {answer.headers['etag']}")
    assert (again.status, again.body) == (304, b"")
    assert served.ask("/api/version", 'If-None-Match: "0"').status == 200


def test_the_connection_stays_for_the_next_request(served):
    with served.connect() as sock:
        for _ in range(5):
            left = send_once(sock, request(served, "GET /api/version HTTP/1.1"))
            assert re.match(rb"HTTP/1.1 200 OK\r\n", left)


def send_once(sock, data):
    sock.sendall(data)
    return sock.recv(65536)


def test_ask_reads_whole_answers(served):
    """The reader of these tests: half of an answer is none."""
    with served.connect() as sock:
        data = send_and_read(sock, request(served, "GET /page.css HTTP/1.1", "Connection: close"))
    assert take_answer(data)[0].status == 200
    assert take_answer(data[:-1])[0] is None
