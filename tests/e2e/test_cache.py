"""The cache as it is set up: every option gives the same answers; what contradicts itself is refused; what a full context
does; and what prompts share."""
import json
import os
import pathlib
import subprocess

import pytest

from conftest import KVERND, SMOLLM2, Daemon

PROMPT = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is"


def complete(daemon, prompt=PROMPT, **more):
    body = {"temperature": 0, "max_tokens": 24, "ignore_eos": True, "logprobs": 1, "return_token_ids": True, **more}
    got = daemon.post("/v1/completions", prompt=prompt, **body)
    assert got.status_code == 200, got.text
    return got.json()


def two_turns(daemon):
    """Tokens and log-probabilities of a cold turn and of one that goes on from its cache."""
    id = daemon.post("/v1/sessions").json()["id"]
    first = complete(daemon, session=id)["choices"][0]
    ids = first["prompt_token_ids"] + first["token_ids"] + [100, 101, 102]
    second = complete(daemon, ids, session=id)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= len(ids) - 4
    return [(c["token_ids"], c["logprobs"]["token_logprobs"]) for c in (first, second["choices"][0])]


@pytest.mark.parametrize("option", [
    ("--layout", "left"), ("--layout", "ring"), ("--update", "eager"), ("--stacked", "false"),
    ("--stage-stacked", "false"), ("--shards", "2"), ("--shards", "3"),
    ("--layout", "ring", "--update", "eager", "--stacked", "false", "--stage-stacked", "false", "--shards", "3")])
def test_no_option_of_layout_changes_an_answer(daemon, option):
    with Daemon("--context", 1024, *option) as other:
        assert two_turns(other) == two_turns(daemon)
        cache = other.http.get("/health").json()["cache"]
        for flag, value in zip(option[::2], option[1::2]):
            assert cache[flag[2:].replace("-", "_")] == json.loads(value if value in ("true", "false", "2", "3")
                                                                   else f'"{value}"')


@pytest.mark.parametrize("option", [("f32",), ("bf16",), ("int8",), ("int8", "head"), ("int8", "line")])
def test_every_type_of_line_serves_and_is_the_same_cold_and_cached(option):
    scale = ("--int8-scale", option[1]) if len(option) > 1 else ()
    with Daemon("--context", 1024, "--kv-type", option[0], *scale) as daemon:
        cache = daemon.http.get("/health").json()["cache"]
        assert cache["kv_type"] == option[0]
        assert cache["int8_scale"] == (option[1] if scale else "group" if option[0] == "int8" else None)
        warm = two_turns(daemon)
        assert len(warm[1][0]) == 24
        again = two_turns(daemon)
        assert again == warm


def test_status_shows_the_cache(daemon):
    shown = daemon.kvern("status").stdout
    for name in ("layout", "update", "stacked", "stage_stacked", "kv_type", "int8_scale", "shards", "pages_used",
                 "pages_shared", "pages_total", "page_bytes"):
        assert f"cache.{name} " in shown
    model = daemon.http.get("/v1/models").json()["data"][0]["kvern"]["fingerprint"]
    assert len(model) == 32 and model in shown
    for name in ("kvern_pages_used", "kvern_pages_shared", "kvern_prompt_tokens_reused_total",
                 "kvern_prompt_tokens_shared_total", "kvern_pages_copied_total", "kvern_pages_evicted_total"):
        assert daemon.metric(name) >= 0


@pytest.mark.parametrize("options, word", [
    (("--int8-scale", "group"), "int8_scale"), (("--kv-type", "f32", "--int8-scale", "head"), "int8_scale"),
    (("--kv-type", "int8", "--int8-scale", "line", "--shards", "2"), "line"), (("--shards", "0"), "shards"),
    (("--shards", "64"), "shards"), (("--layout", "right"), "layout"), (("--update", "never"), "update"),
    (("--stacked", "maybe"), "stacked"), (("--kv-type", "f64"), "kv-type")])
def test_what_cannot_be_is_refused_at_the_start(options, word, tmp_path):
    got = subprocess.run([KVERND, "--model", SMOLLM2, "--socket", tmp_path / "s", *options], capture_output=True,
                         text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert got.returncode == 2, got
    assert word in got.stderr


@pytest.fixture(scope="module")
def small():
    """A daemon whose context is soon full."""
    with Daemon("--context", 256) as running:
        yield running


def test_an_answer_that_cannot_fit_is_refused_before_any_work(small):
    steps = small.metric("kvern_steps_total")
    for more in ({}, {"overflow": "error"}):
        got = small.post("/v1/completions", prompt=[5] * 200, max_tokens=57, **more)
        assert got.status_code == 400 and got.json()["error"]["code"] == "context_length_exceeded"
    assert small.metric("kvern_steps_total") == steps
    fits = complete(small, [5] * 200, max_tokens=56)
    assert len(fits["choices"][0]["token_ids"]) == 56


@pytest.mark.parametrize("more", [{"overflow": "stop", "max_tokens": 500}, {"overflow": "stop", "max_tokens": None},
                                  {"max_tokens": None}])
def test_an_answer_stops_when_the_context_is_full(small, more):
    got = complete(small, [5] * 200, **more)
    assert got["choices"][0]["finish_reason"] == "length"
    assert got["kvern"]["overflow"] == {"policy": "stop"}
    assert got["usage"]["total_tokens"] in (256, 257)


def test_a_session_rotates(small):
    id = small.post("/v1/sessions", overflow="rotate", keep=20).json()["id"]
    first = complete(small, [5] * 100, session=id, max_tokens=600)
    assert len(first["choices"][0]["token_ids"]) == 600
    report = first["kvern"]["overflow"]
    assert report["policy"] == "rotate" and report["keep"] == 32 and report["forgotten"] > 0
    assert report["forgotten"] % 32 == 0
    session = small.http.get(f"/v1/sessions/{id}").json()
    assert (session["overflow"], session["keep"], session["forgotten"]) == ("rotate", 20, report["forgotten"])
    assert session["tokens"] == 700 and session["pages"] <= 8
    # What it forgot is not computed again: the conversation goes on at its end.
    ids = [5] * 100 + first["choices"][0]["token_ids"] + [7, 8, 9]
    second = complete(small, ids, session=id, max_tokens=5)
    assert second["kvern"]["cache"]["computed"] <= 4
    small.http.delete(f"/v1/sessions/{id}")


def test_wrong_fields_are_named(small):
    for body, param in (({"overflow": "maybe"}, "overflow"), ({"overflow": 3}, "overflow"), ({"keep": 3}, "keep"),
                        ({"keep": 3, "overflow": "stop"}, "keep"), ({"keep": -1, "overflow": "rotate"}, "keep"),
                        ({"cache_exclude_tail": -1}, "cache_exclude_tail")):
        got = small.post("/v1/completions", prompt="x", **body)
        assert got.status_code == 400 and got.json()["error"]["param"] == param, body


def test_rotation_needs_a_layout_that_can_turn():
    with Daemon("--context", 256, "--layout", "left") as left:
        got = left.post("/v1/completions", prompt="x", overflow="rotate", max_tokens=3)
        assert got.status_code == 400 and got.json()["error"]["code"] == "invalid_request"
    with Daemon("--context", 256, "--layout", "ring") as ring:
        assert len(complete(ring, [5] * 100, overflow="rotate", max_tokens=400)["choices"][0]["token_ids"]) == 400


def test_a_tail_can_be_kept_out(small):
    id = small.post("/v1/sessions").json()["id"]
    ids = list(range(100, 180))
    complete(small, ids + [7] * 10, session=id, cache_exclude_tail=10)
    session = small.http.get(f"/v1/sessions/{id}").json()
    assert session["tokens"] == 80 and session["committed"] == 80
    after = complete(small, ids + [9] * 10, session=id)["kvern"]["cache"]
    assert (after["reused"], after["computed"], after["reason"]) == (80, 10, "extends")


def test_fifty_turns_compute_only_new_tokens(daemon):
    id = daemon.post("/v1/sessions").json()["id"]
    ids, computed, new = [], 0, 0
    for turn in range(50):
        more = [200 + turn, 7, 8, 9, 10, 11]
        # An answer's last token was sampled and never run: it is new to the cache, too.
        new += len(more) + (1 if turn else 0)
        ids += more
        got = complete(daemon, ids, session=id, max_tokens=5)
        computed += got["kvern"]["cache"]["computed"]
        ids += got["choices"][0]["token_ids"]
    assert computed == new
    daemon.http.delete(f"/v1/sessions/{id}")


def test_sessions_of_one_user_share_a_prefix():
    with Daemon("--context", 1024) as daemon:
        prefix = [300 + i for i in range(320)]
        first, second = (daemon.post("/v1/sessions").json()["id"] for _ in range(2))
        cold = complete(daemon, prefix + [7], session=first)
        assert cold["kvern"]["cache"]["shared"] == 0
        warm = complete(daemon, prefix + [7], session=second)
        assert warm["kvern"]["cache"]["shared"] == 320 == warm["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert warm["choices"][0]["token_ids"] == cold["choices"][0]["token_ids"]
        assert warm["choices"][0]["logprobs"] == cold["choices"][0]["logprobs"]
        session = daemon.http.get(f"/v1/sessions/{second}").json()
        assert session["shared_pages"] >= 10
        assert daemon.metric("kvern_prompt_tokens_shared_total") == 320
        assert daemon.metric("kvern_pages_shared") >= 10
        without = complete(daemon, prefix + [8])
        assert without["kvern"]["cache"]["shared"] == 320


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_users_never_share():
    with Daemon("--context", 1024, "--socket-mode", "0666", model=SMOLLM2) as daemon:
        os.chmod(pathlib.Path(daemon.socket).parent, 0o755)
        prefix = [300 + i for i in range(320)]
        complete(daemon, prefix + [7])
        body = json.dumps({"prompt": prefix + [7], "max_tokens": 1, "temperature": 0})
        as_nobody = subprocess.run(
            ["curl", "-sS", "--unix-socket", daemon.socket, "http://k/v1/completions", "-d", "@-"], input=body,
            capture_output=True, text=True, timeout=120, user=65534, group=65534, extra_groups=[])
        answer = json.loads(as_nobody.stdout)
        assert answer["kvern"]["cache"]["shared"] == 0
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert complete(daemon, prefix + [7])["kvern"]["cache"]["shared"] == 320
