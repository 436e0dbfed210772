"""Sessions keep their cache, say what of it they used, and give the bits of a cold run."""
import pytest

from conftest import events


def chat(daemon, messages, **more):
    got = daemon.post("/v1/chat/completions", messages=messages, temperature=0, max_tokens=16, logprobs=True, **more)
    assert got.status_code == 200, got.text
    return got.json()


def logprobs(answer):
    return [(t["token"], t["logprob"]) for t in answer["choices"][0]["logprobs"]["content"]]


@pytest.fixture
def session(daemon):
    id = daemon.post("/v1/sessions").json()["id"]
    yield id
    daemon.http.delete(f"/v1/sessions/{id}")


def test_turns_compute_only_what_is_new_and_equal_cold_runs(daemon, session):
    messages, seen = [], 0
    for text in ("My name is Ada. Remember it.", "What is my name?", "Spell it backwards."):
        messages.append({"role": "user", "content": text})
        warm, cold = chat(daemon, messages, session=session), chat(daemon, messages)
        assert logprobs(warm) == logprobs(cold)
        cache = warm["kvern"]["cache"]
        prompt = warm["usage"]["prompt_tokens"]
        assert cache["reused"] + cache["computed"] == prompt
        assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == cache["reused"]
        assert cold["kvern"]["cache"]["reason"] == "empty"
        assert cache["reason"] == ("empty" if seen == 0 else "extends")
        assert cache["reused"] >= seen - 1
        seen = prompt
        messages.append({"role": "assistant", "content": warm["choices"][0]["message"]["content"]})


def test_every_reason(daemon, session):
    def complete(ids):
        got = daemon.post("/v1/completions", prompt=ids, temperature=0, max_tokens=1, session=session, logprobs=1).json()
        cold = daemon.post("/v1/completions", prompt=ids, temperature=0, max_tokens=1, logprobs=1).json()
        assert got["choices"] == cold["choices"]
        return got["kvern"]["cache"]

    base = list(range(100, 140))
    assert complete(base)["reason"] == "empty"
    again = complete(base)
    assert (again["reason"], again["reused"], again["computed"]) in (("same", 39, 1), ("shorter", 39, 1))
    longer = complete(base + [7, 8, 9])
    assert longer["reused"] >= 40 - 1
    shorter = complete(base[:20])
    assert (shorter["reason"], shorter["reused"], shorter["computed"]) == ("shorter", 19, 1)
    other = complete(base[:10] + [3] + base[11:])
    assert (other["reason"], other["first_divergence"], other["reused"]) == ("mismatch", 10, 10)


def test_a_session_can_be_listed_and_deleted(daemon):
    id = daemon.post("/v1/sessions").json()["id"]
    assert id in [s["id"] for s in daemon.http.get("/v1/sessions").json()["data"]]
    assert daemon.http.get(f"/v1/sessions/{id}").json()["id"] == id
    assert daemon.http.delete(f"/v1/sessions/{id}").status_code == 200
    gone = daemon.http.get(f"/v1/sessions/{id}")
    assert gone.status_code == 404 and gone.json()["error"]["code"] == "session_not_found"
    assert daemon.post("/v1/completions", prompt="x", session=id).status_code == 404


def test_a_client_that_leaves_keeps_what_it_was_sent(daemon, session):
    body = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 400, "ignore_eos": True, "stream": True,
            "session": session}
    with daemon.http.stream("POST", "/v1/completions", json=body) as response:
        received = ""
        for event in events(response):
            received += "".join(c["text"] for c in event.get("choices", []))
            if len(received) > 20:
                break
    from conftest import wait_until
    wait_until(lambda: not daemon.http.get(f"/v1/sessions/{session}").json()["running"], "the turn goes on")
    assert daemon.http.get(f"/v1/sessions/{session}").json()["tokens"] < 200
    follow = daemon.post("/v1/completions", prompt="Once upon a time" + received, temperature=0, max_tokens=8,
                         session=session, logprobs=1).json()
    cold = daemon.post("/v1/completions", prompt="Once upon a time" + received, temperature=0, max_tokens=8,
                       logprobs=1).json()
    assert follow["choices"] == cold["choices"]
    assert follow["kvern"]["cache"]["reused"] > 0


def test_progress_is_reported_first(daemon):
    body = {"prompt": [5] * 2000, "max_tokens": 1, "stream": True, "stream_options": {"include_progress": True}}
    with daemon.http.stream("POST", "/v1/completions", json=body) as response:
        got = list(events(response))
    progress = [e["kvern"]["progress"] for e in got if e != "[DONE]" and "progress" in e.get("kvern", {})]
    assert [e["choices"] for e in got[:len(progress)]] == [[]] * len(progress)
    assert progress[0]["processed"] == 0 and progress[0]["total"] == 2000
    assert progress[-1] == {"processed": 2000, "total": 2000, "percent": 100}
    assert [p["processed"] for p in progress] == sorted(p["processed"] for p in progress)
