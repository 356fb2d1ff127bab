"""Goal: nobody but the browser that has the token gets data. Method: a request for each way in that
has been found open in servers of this kind."""

import re
import secrets

import pytest
from served_program import Served, take_answer, write_trace


def head(server, *lines, target="/api/version"):
    """Bytes of a request whose header lines are all given."""
    text = "\r\n".join((f"GET {target} HTTP/1.1", *lines, f"Cookie: {server.cookie}"))
    return text.encode("latin-1") + b"\r\n\r\n"


def status(server, data, **more):
    answer, _ = take_answer(server.talk(data, **more))
    return answer.status if answer else None


# ---------------------------------------------------------------- names and origins


def test_each_name_of_loopback_is_ours(served):
    for name in ("127.0.0.1", "[::1]", "localhost", "LOCALHOST"):
        assert served.ask("/api/version", host=f"{name}:{served.port}").status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}:{port}",
        "127.0.0.1:0{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "0.0.0.0:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "user@127.0.0.1:{port}",
        "127.0.0.1:{port}/",
        "127.0.0.1:{port}, evil.example",
        "",
    ],
)
def test_another_name_that_leads_here_is_refused(served, host):
    lines = [f"Host: {host.format(port=served.port)}"]
    assert status(served, head(served, *lines)) in ((400, 403) if host == "" else (403,))
    assert status(served, head(served, *lines, target="/")) in (400, 403)


def test_two_hosts_are_refused(served):
    for other in ("evil.example", served.host):
        assert status(served, head(served, f"Host: {served.host}", f"Host: {other}")) == 400
        assert status(served, head(served, f"Host: {other}", f"host: {served.host}")) == 400


def test_no_host_is_refused(served):
    assert status(served, head(served)) == 400
    assert status(served, b"GET /api/version HTTP/1.0\r\n\r\n") in (400, 505)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://{host}",
        "http://{host}.evil.example",
        "{host}",
        "",
        "http://localhost:{port}",
        "http://{host}/",
        "file://",
        "http://127.0.0.1",
    ],
)
def test_pages_of_other_origins_are_refused(served, origin):
    text = origin.format(host=served.host, port=served.port)
    assert served.ask("/api/version", f"Origin: {text}").status == 403
    answer = served.ask("/api/session", f"Origin: {text}", method="POST", body=b"x")
    assert answer.status == 403
    assert not [key for key, _ in answer.pairs if key.lower().startswith("access-control-")]


def test_our_own_origin_may_ask(served):
    assert served.ask("/api/version", f"Origin: http://{served.host}").status == 200
    assert served.ask("/api/version", "Sec-Fetch-Site: same-origin").status == 200


def test_pages_of_other_sites_are_refused_though_they_say_no_origin(served):
    for site in ("cross-site", "same-site"):
        assert served.ask("/api/version", f"Sec-Fetch-Site: {site}").status == 403
        assert served.ask("/", f"Sec-Fetch-Site: {site}").status == 200  # a link may lead here


def test_a_web_socket_without_origin_is_refused(served):
    lines = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    assert status(served, head(served, f"Host: {served.host}", *lines)) == 400


# ---------------------------------------------------------------- token and cookie


def test_a_thousand_wrong_tokens_are_refused_and_the_right_one_works_once(tmp_path):
    path = tmp_path / "small.pt.trace.json"
    write_trace(path)
    with Served("--no-cache", path) as server:
        wrong = ["", "0" * 32, server.token[:-1], server.token + "0", server.token.upper()]
        wrong = [each for each in wrong if each != server.token]
        wrong += [secrets.token_hex(16) for _ in range(1000)]
        with server.connect() as sock:
            for token in wrong:
                assert answer_of(sock, server, token) in (403, None)
                sock.close()
                sock = server.connect()
        assert server.ask("/api/version").status == 401
        answer = server.log_in()
        assert re.fullmatch(
            rf"kscope_{server.port}=[0-9a-f]{{32}}; Path=/; HttpOnly; SameSite=Strict",
            answer.headers["set-cookie"],
        )
        assert server.token not in answer.headers["set-cookie"]
        again = server.ask("/api/session", method="POST", body=server.token.encode(), cookie=False)
        assert again.status == 403
        assert "set-cookie" not in again.headers
        assert server.ask("/api/version").status == 200


def answer_of(sock, server, token):
    data = (
        f"POST /api/session HTTP/1.1\r\nHost: {server.host}\r\n"
        f"Content-Length: {len(token)}\r\n\r\n{token}"
    )
    sock.sendall(data.encode())
    answer, _ = take_answer(sock.recv(65536))
    return answer and answer.status


def test_no_data_without_the_cookie(served):
    good = served.cookie.split("=")[1]
    name = served.cookie.split("=")[0]
    for cookie in (
        None,
        f"{name}=",
        f"{name}={'0' * 32}",
        f"x{name}={good}",
        f"{name}x={good}",
        f"{name}={good}0",
        f"{name}={good[:-1]}",
        good,
        f"{name}={served.token}",
    ):
        lines = [f"Cookie: {cookie}"] if cookie else []
        for target in (
            "/api/version",
            "/api/report?v=1",
            "/api/timeline?v=1",
            "/api/flame?v=1",
            "/api/memory?v=1",
            "/api/tile?v=1&start=0&end=1&parts=16&tracks=0",
        ):
            answer = served.ask(target, *lines, cookie=False)
            assert answer.status == 401, (target, cookie)
            assert b"aten" not in answer.body


def test_the_cookie_is_found_among_others(served):
    for text in (
        f"a=b; {served.cookie}",
        f"{served.cookie}; a=b",
        f"a;;=; {served.cookie};",
        f"{served.cookie.split('=')[0]}=0; {served.cookie}",
    ):
        assert served.ask("/api/version", f"Cookie: {text}", cookie=False).status == 200


def test_two_servers_have_two_secrets(served, tmp_path):
    path = tmp_path / "small.pt.trace.json"
    write_trace(path)
    with Served("--no-cache", path) as other:
        assert other.token != served.token
        value = served.cookie.split("=")[1]
        cookie = f"Cookie: kscope_{other.port}={value}"
        assert other.ask("/api/version", cookie).status == 401


# ---------------------------------------------------------------- headers of answers

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize("target", ["/", "/page.js", "/page.css", "/api/version", "/none", "/%"])
def test_every_answer_has_the_headers_that_protect_it(served, target):
    answer = served.ask(target)
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert not [key for key, _ in answer.pairs if key.lower().startswith("access-control-")]


def test_the_page_without_data_holds_none(served):
    for target in ("/", "/page.js", "/page.css"):
        answer = served.ask(target, cookie=False)
        assert answer.status == 200
        assert b"aten::" not in answer.body.replace(b"aten::operator", b"")
        assert served.token.encode() not in answer.body
