"""Tokens and log-probabilities do not depend on the company a prompt is computed in."""
import concurrent.futures
import json

from conftest import ROOT, Daemon

PROMPTS = ["Why is the sky blue?", "List three prime numbers.", "A B C D E", "def fibonacci(n):", "Once upon a time",
           "The capital of France is", "x " * 300, "Translate 'cat' into French."]


def answer(daemon, prompt):
    got = daemon.post("/v1/completions", prompt=prompt, temperature=0, max_tokens=40, ignore_eos=True, logprobs=20,
                      return_token_ids=True)
    assert got.status_code == 200, got.text
    choice = got.json()["choices"][0]
    return choice["token_ids"], choice["logprobs"]


def at_once(daemon):
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        return list(pool.map(lambda prompt: answer(daemon, prompt), PROMPTS))


def test_eight_at_once_equal_each_alone_on_any_number_of_threads(daemon):
    alone = [answer(daemon, prompt) for prompt in PROMPTS]
    assert at_once(daemon) == alone
    for threads in (1, 3):
        with Daemon("--threads", threads) as other:
            assert at_once(other) == alone


def test_greedy_equals_the_reference_until_its_first_close_call(daemon):
    for line in (ROOT / "tests/golden/greedy/smollm2.jsonl").read_text().splitlines():
        case = json.loads(line)
        got = daemon.post("/v1/completions", prompt=case["prompt_ids"], temperature=0, max_tokens=len(case["f32_ids"]),
                          ignore_eos=True, return_token_ids=True).json()
        sure = next((i for i, m in enumerate(case["f32_margin"]) if m < 0.02), len(case["f32_ids"]))
        assert got["choices"][0]["token_ids"][:sure] == case["f32_ids"][:sure], case["name"]
