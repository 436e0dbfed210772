"""The scripts that measure a server from outside run, and print figures."""
import re
import subprocess
import sys

import pytest

from conftest import KVERND, ROOT, SMOLLM2


def run(script, *arguments):
    return subprocess.run([sys.executable, ROOT / "bench" / script, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def serving(case, **numbers):
    flags = [text for name, value in numbers.items() for text in (f"--{name}", value)]
    return run("serving.py", "--kvernd", KVERND, "--model", SMOLLM2, "--threads", 2, "--kv-memory", "128MiB", case, *flags)


@pytest.mark.parametrize("case, numbers, figures", [
    ("clients", {"clients": 3, "prompt": 40, "tokens": 12}, ["tokens a second", "time to first token", "steps"]),
    ("gap", {"streams": 2, "prompt": 300, "tokens": 150, "context": 1024}, ["gap between tokens", "its first token", "steps"]),
    ("follow-ups", {"conversations": 2, "turns": 2, "first": 40, "new": 10, "answer": 4}, ["time to first token", "steps"]),
])
def test_serving_prints_figures(case, numbers, figures):
    ran = serving(case, **numbers)
    assert ran.returncode == 0, ran.stderr
    for name in figures:
        assert re.search(rf"^{name} .*[1-9]", ran.stdout, re.M), ran.stdout


def test_streams_that_end_before_the_prompt_are_no_measurement():
    ran = serving("gap", streams=1, prompt=900, tokens=12, context=1024)
    assert ran.returncode != 0 and "--tokens" in ran.stderr


def test_a_refused_request_is_no_measurement():
    ran = serving("clients", clients=1, prompt=600, tokens=12)
    assert ran.returncode != 0 and "400" in ran.stderr


def test_sessions_counts_what_a_conversation_computes():
    ran = run("sessions.py", "--kvernd", KVERND, "--model", SMOLLM2, "conversation", "--turns", 3, "--answer", 4, "--peers", "none")
    assert ran.returncode == 0, ran.stderr
    assert "turn for turn equal" in ran.stdout
