"""Check which requests the server lets in."""

import json

import pytest
from serving import LOOK

from attncli.live.server.guard import Lock

BODY = json.dumps(LOOK).encode()


def test_a_token_is_exchanged_for_a_cookie_that_scripts_can_not_read(served):
    status, headers, body = served.ask(path=f"/?token={served.lock.token}", Cookie=None)
    assert (status, headers["location"], body) == (303, "/", b"")
    parts = [part.strip() for part in headers["set-cookie"].split(";")]
    assert parts[0] == served.cookie and {"HttpOnly", "SameSite=strict", "Path=/"} <= set(parts)
    assert served.lock.token not in headers["set-cookie"]
    status, headers, body = served.ask(Cookie=f"other=1; {parts[0]}; attncli-1=no")
    assert status == 200 and b'id="typed"' in body and served.lock.token.encode() not in body


TOKENS = ["", "wrong", "%C3%A9", "%FF", "%00", "a" * 5000]
PATHS = ["/", "/look", "/page", "/nothing", "/?x=1", "/../etc/passwd", "//"]
COOKIES = [
    None, "", "attncli=1", "=", "attncli-{port}=wrong", "attncli-{port}={token}", "\xff\xfe", ";;;",
]  # fmt: skip
HOSTS = [
    "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "", ":{port}",
    "127.0.0.1:{port}.evil.example", "127.0.0.1:{port}@evil.example", "127.0.0.1:{port}, evil.example", "[::2]:{port}",
]  # fmt: skip
ORIGINS = [
    None, "null", "http://evil.example", "http://127.0.0.1", "https://127.0.0.1:{port}", "http://127.0.0.1:1",
    "http://localhost:{port}", "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}/",
]  # fmt: skip
NOWHERE = ["/nothing", "/etc/passwd", "/../../etc/passwd", "/%2e%2e/", "/static/../x", "/favicon.ico"]
OTHER_METHODS = [("POST", "/"), ("GET", "/look"), ("GET", "/page"), ("PUT", "/look"), ("DELETE", "/")]
# What is refused: the method, the path, the headers that differ from those of the page, the status, and why.
REFUSED = [
    *(("GET", f"/?token={token}", {"Cookie": None}, 403, "token") for token in TOKENS),
    *((method, path, {"Cookie": cookie}, 403, "token") for method in ("GET", "POST") for path in PATHS
      for cookie in COOKIES),
    *((method, path, {"Host": host, "Origin": f"http://{host}"}, 421, "") for host in HOSTS
      for method, path in (("GET", "/"), ("GET", "/?token={token}"), ("POST", "/look"))),
    *(("POST", path, {"Origin": origin}, 403, "") for path in ("/look", "/page") for origin in ORIGINS),
    *((method, path, {"Origin": "http://127.0.0.1:{port}"}, 405, "") for method, path in OTHER_METHODS),
    *(("GET", path, {}, 404, '{"error":"Not Found"}') for path in NOWHERE),
]  # fmt: skip


def test_requests_that_are_not_the_pages_are_refused(served):
    own = {"port": served.lock.port, "token": served.lock.token}
    for method, path, given, expected, why in REFUSED:
        headers = {name: value and value.format(**own) for name, value in given.items()}
        body = BODY if method in ("POST", "PUT") else None
        status, answered, said = served.ask(method, path.format(**own), body, **headers)
        assert status == expected and why.encode() in said, (method, path, given)
        assert "set-cookie" not in answered and "default-src 'none'" in answered["content-security-policy"]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_its_own_names_are_known(served, name):
    host = f"{name}:{served.lock.port}"
    assert served.ask(Host=host)[0] == 200
    assert served.ask("POST", "/look", BODY, Host=host, Origin=f"http://{host}")[0] == 200


def test_nobody_else_may_read_an_answer_or_frame_a_page(served):
    for given in (("GET", "/", None), ("POST", "/look", BODY), ("GET", "/nothing", None), ("OPTIONS", "/look", None)):
        _, headers, _ = served.ask(*given, Origin=served.origin)
        assert not [name for name in headers if name.startswith("access-control")]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store" and "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers


def test_a_page_may_ask_nobody_but_its_server(served):
    _, headers, body = served.ask()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in policy and "unsafe" not in policy
    assert policy.replace("; frame-ancestors 'none'", "").encode() in body


@pytest.mark.parametrize(
    ("host", "known", "foreign"),
    [
        (
            "0.0.0.0",
            ["192.168.1.2:80", "localhost:80", "[::1]:80"],
            ["evil.example:80", "192.168.1.2:81", "1.2.3.4.evil:80"],
        ),
        ("machine.lan", ["machine.lan:80", "Machine.LAN:80"], ["localhost:80", "127.0.0.1:80", "evil:80"]),
        ("::1", ["[::1]:80", "localhost:80"], ["[::2]:80", "::1:81"]),
    ],
)
def test_a_server_elsewhere_knows_its_own_names(host, known, foreign):
    lock = Lock(host, 80)
    assert all(map(lock.is_own, known)) and not any(map(lock.is_own, foreign))


def test_tokens_are_of_chance_and_not_told():
    one, other = Lock("127.0.0.1", 1), Lock("127.0.0.1", 1)
    assert len({one.token, one.key, other.token, other.key}) == 4 and len(one.token) >= 32
    assert one.token not in repr(one) and one.key not in repr(one)
