"""Guessed tokens: more of them in a step, and the same answer."""
import pytest

from conftest import Daemon, wait_until

LIST = "".join(f"{n}. The quick brown fox jumps over the lazy dog number {n}.\n" for n in range(1, 13))
PROMPT = f"The list:\n{LIST}\nThe same list again:\n1. The quick brown fox"


def answer(daemon, **more):
    got = daemon.post("/v1/completions", prompt=PROMPT, max_tokens=120, return_token_ids=True, logprobs=3, **more)
    assert got.status_code == 200, got.text
    body = got.json()
    choice = body["choices"][0]
    details = body["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] < body["usage"]["completion_tokens"]
    return (choice["token_ids"], choice["logprobs"], choice["text"], choice["finish_reason"]), details


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 0.8, "seed": 11}, {"temperature": 0, "stop": "7."},
                                     {"temperature": 0.8, "seed": 3, "repetition_penalty": 1.05, "ignore_eos": True}])
def test_no_answer_depends_on_it(daemon, options):
    plain, nothing = answer(daemon, prompt_lookup=False, **options)
    assert nothing == {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    for mode in ({}, {"prompt_lookup": True}):
        assert answer(daemon, **mode, **options)[0] == plain


def test_an_answer_that_copies_is_guessed_and_counted(daemon):
    before = daemon.metric("kvern_steps_total")
    (tokens, *_), details = answer(daemon, temperature=0, prompt_lookup=True)
    right = details["accepted_prediction_tokens"]
    assert right > len(tokens) // 2
    health = lambda: daemon.http.get("/health").json()["prompt_lookup"]
    wait_until(lambda: health()["accepted_tokens"] >= right, "the counts lag behind")
    assert health()["mode"] == "auto" and health()["drafted_tokens"] >= health()["accepted_tokens"]
    assert daemon.metric("kvern_steps_total") - before < len(tokens)


def test_the_setting_holds_where_a_request_says_nothing():
    with Daemon("--prompt-lookup", "off") as quiet:
        assert sum(answer(quiet, temperature=0)[1].values()) == 0
        assert sum(answer(quiet, temperature=0, prompt_lookup=True)[1].values()) > 0
        assert ["prompt_lookup.mode", "off"] in [line.split() for line in quiet.kvern("status").stdout.splitlines()]


def test_a_wrong_value_is_named(daemon):
    got = daemon.post("/v1/completions", prompt="a", prompt_lookup="auto")
    assert got.status_code == 400 and got.json()["error"]["param"] == "prompt_lookup"
