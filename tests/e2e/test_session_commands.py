"""Sessions are forked, cut back, explained, written to files and read from them."""
import json
import random
import struct

import httpx
import pytest

from conftest import TINY, Daemon, events, wait_until


def complete(daemon, ids, **more):
    got = daemon.post("/v1/completions", prompt=ids, temperature=0, logprobs=1, return_token_ids=True,
                      **{"max_tokens": 8, **more})
    assert got.status_code == 200, got.text
    return got.json()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def bits(answer):
    return answer["choices"][0]["token_ids"], answer["choices"][0]["logprobs"]["token_logprobs"]


@pytest.fixture
def session(daemon):
    """A session with 100 tokens of prompt and 8 of an answer, and these tokens."""
    id = daemon.post("/v1/sessions").json()["id"]
    ids = [random.Random(1).randrange(100, 40000) for _ in range(100)]
    ids += complete(daemon, ids, session=id, ignore_eos=True)["choices"][0]["token_ids"]
    yield id, ids
    daemon.http.delete(f"/v1/sessions/{id}")


def test_forks_go_on_alone(daemon, session):
    id, ids = session
    made = daemon.http.post(f"/v1/sessions/{id}/fork")
    assert made.status_code == 201
    child = made.json()
    assert child["tokens"] == len(ids) and child["id"] != id
    one, two = complete(daemon, ids + [7, 8], session=child["id"]), complete(daemon, ids + [9], session=id)
    assert cached(one) == cached(two) == len(ids) - 1
    assert bits(one) == bits(complete(daemon, ids + [7, 8]))
    assert bits(two) == bits(complete(daemon, ids + [9]))
    part = daemon.post(f"/v1/sessions/{id}/fork", tokens=40).json()
    assert part["tokens"] == 40
    assert cached(complete(daemon, ids[:40] + [7], session=part["id"])) == 40
    assert daemon.post(f"/v1/sessions/{id}/fork", tokens=10_000).status_code == 400
    assert daemon.http.post("/v1/sessions/s-none/fork").status_code == 404


def test_forks_of_a_running_session(daemon):
    id = daemon.post("/v1/sessions").json()["id"]
    body = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 2000, "ignore_eos": True, "stream": True,
            "session": id}
    with daemon.http.stream("POST", "/v1/completions", json=body) as response:
        stream = events(response)
        for _ in range(10):
            next(stream)
        made = fork(daemon, id)
        assert 0 < made["tokens"] < 2000 and not made["running"]
    wait_until(lambda: not daemon.http.get(f"/v1/sessions/{id}").json()["running"], "the turn goes on")
    daemon.http.delete(f"/v1/sessions/{id}")


def fork(daemon, id):
    """Over a connection of its own: the other is reading a stream."""
    with httpx.Client(transport=httpx.HTTPTransport(uds=daemon.socket), base_url="http://kvern") as other:
        made = other.post(f"/v1/sessions/{id}/fork")
    assert made.status_code == 201, made.text
    return made.json()


def test_rewinding(daemon, session):
    id, ids = session
    back = daemon.post(f"/v1/sessions/{id}/rewind", tokens=50)
    assert back.status_code == 200 and back.json()["tokens"] == 50 and back.json()["reusable"] == 50
    assert daemon.http.get(f"/v1/sessions/{id}").json()["reusable"] == 50
    after = complete(daemon, ids[:50] + [7, 8, 9], session=id)
    assert (cached(after), after["kvern"]["cache"]["reason"]) == (50, "extends")
    assert bits(after) == bits(complete(daemon, ids[:50] + [7, 8, 9]))
    assert daemon.post(f"/v1/sessions/{id}/rewind", tokens=5000).status_code == 400
    assert daemon.post(f"/v1/sessions/{id}/rewind").status_code == 400


def test_explaining(daemon, session):
    id, ids = session
    changed = ids[:60] + [5] + ids[61:]
    steps = daemon.metric("kvern_steps_total")
    told = daemon.post(f"/v1/sessions/{id}/explain", prompt=changed)
    assert told.status_code == 200, told.text
    told = told.json()
    assert (told["reused"], told["reason"], told["message"]) == (60, "mismatch", None)
    where = told["first_divergence"]
    assert (where["position"], where["cached_token"], where["prompt_token"]) == (60, ids[60], 5)
    assert where["cached_text"] and where["prompt_text"] and where["cached_text"] != where["prompt_text"]
    assert daemon.metric("kvern_steps_total") == steps
    assert daemon.http.get(f"/v1/sessions/{id}").json()["tokens"] == len(ids)
    longer = daemon.post(f"/v1/sessions/{id}/explain", prompt=ids + [3]).json()
    assert (longer["reason"], longer["first_divergence"]) == ("extends", None)
    assert longer["reused"] + longer["computed"] == len(ids) + 1
    assert cached(complete(daemon, ids + [3], session=id)) == longer["reused"]


def test_explaining_a_chat_names_the_message(daemon):
    id = daemon.post("/v1/sessions").json()["id"]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a river."},
                {"role": "assistant", "content": "The Po."}, {"role": "user", "content": "And a mountain?"}]
    daemon.post("/v1/chat/completions", messages=messages, session=id, max_tokens=4)
    for index in range(4):
        other = [dict(m) for m in messages]
        other[index]["content"] = "X" + other[index]["content"]
        told = daemon.post(f"/v1/sessions/{id}/explain", messages=other).json()
        assert (told["reason"], told["message"]) == ("mismatch", index)
    daemon.http.delete(f"/v1/sessions/{id}")


def parts(file):
    """Header and data of a safetensors file."""
    length = struct.unpack("<Q", file[:8])[0]
    return json.loads(file[8:8 + length]), file[8 + length:]


def test_a_session_goes_to_another_daemon_in_a_file(daemon, session):
    id, ids = session
    got = daemon.http.get(f"/v1/sessions/{id}/export")
    assert got.status_code == 200 and got.headers["content-type"] == "application/octet-stream"
    header, data = parts(got.content)
    metadata = header["__metadata__"]
    assert metadata["kv_type"] == "f16" and metadata["format"] == "kvern-session-1"
    assert metadata["model"] == daemon.http.get("/v1/models").json()["data"][0]["kvern"]["fingerprint"]
    begin, end = header["tokens"]["data_offsets"]
    assert list(struct.unpack(f"<{len(ids)}i", data[begin:end])) == ids
    committed = int(metadata["committed"])
    assert committed == len(ids) - 1
    assert header["layers.0.k"]["dtype"] == "F16" and header["layers.29.v"]["shape"] == [committed, 3, 64]
    with Daemon("--context", 1024, "--layout", "ring", "--shards", "3", "--stacked", "false") as other:
        made = other.http.post("/v1/sessions/import", content=got.content)
        assert made.status_code == 201, made.text
        back = made.json()
        assert (back["tokens"], back["committed"]) == (len(ids), committed)
        warm = complete(other, ids + [7], session=back["id"])
        assert cached(warm) == committed
        assert bits(warm) == bits(complete(daemon, ids + [7]))
        again = other.http.get(f"/v1/sessions/{back['id']}/export")
        assert again.status_code == 200


def test_files_that_are_cut_or_changed(daemon, session):
    id, _ = session
    file = daemon.http.get(f"/v1/sessions/{id}/export").content
    header_end = 8 + struct.unpack("<Q", file[:8])[0]
    before = len(daemon.http.get("/v1/sessions").json()["data"])
    chance = random.Random(5)
    cuts = [0, 1, 7, 8, 9, header_end - 1, header_end, len(file) - 1] + [chance.randrange(len(file)) for _ in range(20)]
    for size in cuts:
        got = daemon.http.post("/v1/sessions/import", content=file[:size])
        assert got.status_code == 400, size
        assert got.json()["error"]["code"] == "invalid_session_file"
    assert daemon.http.post("/v1/sessions/import", content=file + b"x").status_code == 400
    for i in range(90):
        at = chance.randrange(header_end) if i < 60 else chance.randrange(header_end, len(file))
        flipped = bytearray(file)
        flipped[at] ^= 1 << chance.randrange(8)
        got = daemon.http.post("/v1/sessions/import", content=bytes(flipped))
        assert got.status_code in (400, 409), (at, got.text)
    assert len(daemon.http.get("/v1/sessions").json()["data"]) == before
    too_long = daemon.raw()
    too_long.sendall(b"POST /v1/sessions/import HTTP/1.1\r\nHost: k\r\nContent-Length: 99999999999999\r\n\r\n")
    assert too_long.recv(100).startswith(b"HTTP/1.1 413")
    too_long.close()


def test_files_of_another_make_are_refused(daemon, session):
    id, _ = session
    file = daemon.http.get(f"/v1/sessions/{id}/export").content
    for options in (("--kv-type", "f32"), ("--activations", "fast"), ("--kv-type", "int8")):
        with Daemon("--context", 1024, *options) as other:
            got = other.http.post("/v1/sessions/import", content=file)
            assert got.status_code == 409 and got.json()["error"]["code"] == "session_file_mismatch", got.text
    with Daemon(model=TINY) as other:
        got = other.http.post("/v1/sessions/import", content=file)
        # A full context of the tiny model may take less than the file has.
        assert got.status_code in (409, 413)


def test_at_the_limit_the_oldest_idle_session_makes_room():
    with Daemon(model=TINY) as daemon:
        ids = [daemon.post("/v1/sessions").json()["id"] for _ in range(1024)]
        assert daemon.post("/v1/completions", prompt=[1, 2], max_tokens=1, session=ids[0]).status_code == 200
        assert daemon.post("/v1/sessions").status_code == 200
        assert daemon.http.get(f"/v1/sessions/{ids[0]}").status_code == 200
        assert daemon.http.get(f"/v1/sessions/{ids[1]}").status_code == 404
        assert len(daemon.http.get("/v1/sessions").json()["data"]) == 1024
