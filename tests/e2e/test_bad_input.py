"""Bad input: a clear refusal, and the daemon answers the next request."""
import json
import socket

import pytest

from conftest import events, wait_until


def refused(daemon, body, status=400, path="/v1/chat/completions", code=None):
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    got = daemon.http.post(path, content=content)
    assert got.status_code == status, (got.status_code, got.text[:300])
    problem = got.json()["error"]
    assert problem["message"] and problem["type"] and problem["code"]
    if code:
        assert problem["code"] == code
    assert daemon.http.get("/health").status_code == 200
    return problem


HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"{\"messages\": [}", b"\xff\xfe", b"{\"messages\": \"\xff\"}",
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"messages": [{"role": "user", "content": "\\udc00\\ud800"}]}',
    b'{"x":' + b"[" * 10000, b'{"x":' + b"[" * 10000 + b"]" * 10000 + b"}",
    b'{"messages": [], "tools": ' + b'[' * 3000 + b']' * 3000 + b"}",
    b'{"messages": [{"role":"user","content":"hi"}], "temperature": 1e999}',
])
def test_broken_json(daemon, body):
    refused(daemon, body)


@pytest.mark.parametrize("field", [
    {"messages": 5}, {"messages": []}, {"messages": [5]}, {"messages": [{"content": "no role"}]}, {"temperature": "hot"},
    {"temperature": -1}, {"top_p": 2}, {"top_p": -0.1}, {"max_tokens": "x"}, {"max_tokens": 1.5}, {"max_tokens": -7},
    {"n": 0}, {"n": 1000}, {"n": 2**63}, {"stop": 5}, {"stop": ["a"] * 100}, {"stop": [5]}, {"seed": "x"}, {"stream": "yes"},
    {"logit_bias": {"-1": 1}}, {"logit_bias": {"abc": 1}}, {"logit_bias": {"191222": -100}}, {"logit_bias": []},
    {"top_logprobs": 21, "logprobs": True}, {"top_logprobs": -1, "logprobs": True}, {"logprobs": 3}, {"session": 5},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
    {"response_format": {"type": "json_object"}}, {"min_p": 7}, {"repetition_penalty": -1}, {"stream_options": 3},
    {"tools": 5}, {"presence_penalty": "x"}, {"model": 5}, {"max_tokens": 2**70},
])
def test_wrong_types_and_ranges(daemon, field):
    refused(daemon, {"messages": HI, **field})


def test_unknown_things(daemon):
    refused(daemon, {"messages": HI, "session": "s-0"}, 404, code="session_not_found")
    refused(daemon, {"messages": HI, "model": "other"}, 404, code="model_not_found")
    assert daemon.http.get("/v1/sessions/..%2f..%2fetc").status_code == 404
    assert daemon.http.get("/nowhere").status_code == 404
    assert daemon.http.get("/v1/chat/completions").status_code == 405
    assert daemon.post("/v1/chat/completions", messages=HI, max_tokens=1, some_new_field={"a": 1}).status_code == 200


def test_body_over_the_limit_is_refused_before_it_is_read(daemon):
    with daemon.raw() as s:
        s.sendall(b"POST /v1/tokenize HTTP/1.1\r\nHost: k\r\nContent-Length: 20000000\r\n\r\n")
        assert s.recv(64).split(b" ")[1] == b"413"
    with daemon.raw() as s:
        s.sendall(b"POST /v1/tokenize HTTP/1.1\r\nHost: k\r\nContent-Length: 18446744073709551615\r\n\r\n")
        assert s.recv(64).split(b" ")[1] in (b"400", b"413")


def test_not_http(daemon):
    for garbage in (b"\x16\x03\x01\x00\x00\r\n\r\n", b"GET\r\n\r\n", b"A" * 200000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50000):
        with daemon.raw() as s:
            try:
                s.sendall(garbage)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
    assert daemon.http.get("/health").status_code == 200


def test_prompt_longer_than_the_context(daemon):
    for stream in (False, True):
        problem = refused(daemon, {"messages": [{"role": "user", "content": "word " * 20000}], "stream": stream},
                          code="context_length_exceeded")
        assert "8192" in problem["message"] and "200" in problem["message"]
        assert problem["type"] == "invalid_request_error"


def test_prompts_of_edge_sizes(daemon):
    empty = daemon.post("/v1/completions", prompt="", max_tokens=1).json()
    assert empty["usage"]["prompt_tokens"] == 1, "an empty prompt is the model's begin token"
    refused(daemon, {"prompt": [10**9]}, path="/v1/completions")
    refused(daemon, {"prompt": [-1]}, path="/v1/completions")
    refused(daemon, {"prompt": 7}, path="/v1/completions")
    refused(daemon, {"prompt": [5] * 8191, "max_tokens": 5}, path="/v1/completions", code="context_length_exceeded")
    full = daemon.post("/v1/completions", prompt=[5] * 8191, max_tokens=5, ignore_eos=True, overflow="stop").json()
    assert full["usage"]["completion_tokens"] == 1 and full["choices"][0]["finish_reason"] == "length"
    refused(daemon, {"prompt": "x", "max_tokens": 0}, path="/v1/completions")


def test_template_refusals_are_the_callers_error(daemon):
    deep = {"messages": [{"role": {"not": "text"}, "content": "hi"}]}
    assert refused(daemon, deep)["type"] == "invalid_request_error"


LONG = {"prompt": "Once upon a time", "ignore_eos": True, "stream": True}


def idle(daemon):
    return daemon.metric("kvern_turns_running") == 0 and daemon.metric("kvern_turns_queued") == 0


def send(daemon, body):
    s = daemon.raw()
    content = json.dumps(body).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: k\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
    return s


def test_a_client_that_leaves_during_decode_or_prompt(daemon):
    s = send(daemon, LONG)
    s.recv(10)
    s.close()
    wait_until(lambda: idle(daemon), "decode goes on for nobody")
    s = send(daemon, {**LONG, "prompt": [5] * 8000})
    wait_until(lambda: daemon.metric("kvern_turns_running") == 1, "the prompt does not begin")
    s.close()
    wait_until(lambda: idle(daemon), "the prompt goes on for nobody")


def test_clients_that_leave_the_queue_never_start():
    from conftest import Daemon
    with Daemon("--max-running", 1) as daemon:
        first = send(daemon, LONG)
        first.recv(10)
        computed = daemon.metric("kvern_prompt_tokens_total")
        others = [send(daemon, LONG) for _ in range(20)]
        wait_until(lambda: daemon.metric("kvern_turns_queued") == 20, "the others do not queue")
        for s in others:
            s.close()
        wait_until(lambda: daemon.metric("kvern_turns_queued") == 0, "the dead stay queued")
        first.close()
        wait_until(lambda: idle(daemon), "something runs for nobody")
        assert daemon.metric("kvern_prompt_tokens_total") == computed
        assert daemon.post("/v1/completions", prompt="x", max_tokens=1).status_code == 200


def resident_bytes(daemon):
    for line in open(f"/proc/{daemon.process.pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024


def test_clients_that_never_read_hurt_nobody(daemon):
    before = resident_bytes(daemon)
    with daemon.raw() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent = [send(daemon, {**LONG, "logprobs": 20}) for _ in range(4)]
        got = daemon.post("/v1/completions", prompt="One, two,", max_tokens=16, temperature=0)
        assert got.status_code == 200
        wait_until(lambda: idle(daemon), "a reader that does not read holds its slot", deadline=180)
        assert resident_bytes(daemon) - before < 128 << 20
        for s in silent:
            s.close()
    assert daemon.http.get("/health").status_code == 200


def test_logs_hold_no_prompt_and_few_lines():
    from conftest import Daemon
    with Daemon() as daemon:
        for i in range(20):
            daemon.post("/v1/completions", prompt=f"secret-marker-{i}", max_tokens=1)
        daemon.post("/v1/completions", prompt="secret-marker", max_tokens=1, temperature=-1)
        daemon.http.post("/v1/completions", content='{"prompt": "secret-marker", ')
        log = daemon.logged()
        assert "secret-marker" not in log
        assert len(log.splitlines()) <= 2 * 22 + 10
