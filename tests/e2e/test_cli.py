"""The kvern command."""
import json
import os
import pty
import select
import signal
import subprocess
import time

from conftest import KVERN, wait_until


def test_run_streams_an_answer(daemon):
    got = daemon.kvern("run", "--temperature", "0", "-n", "24", "What is the capital of France?")
    assert got.returncode == 0 and "Paris" in got.stdout and got.stdout.endswith("\n") and got.stderr == ""


def test_run_takes_context_and_prompt_from_a_pipe(daemon):
    asked = daemon.kvern("run", "--temperature", "0", "-n", "4", "-", input="What is the capital of France?")
    same = daemon.kvern("run", "--temperature", "0", "-n", "4", "What is the capital of France?")
    assert asked.stdout == same.stdout
    got = daemon.kvern("run", "--json", "-n", "4", "Summarise.", input="Some context.\n")
    ids = daemon.post("/v1/chat/render", messages=[{"role": "user", "content": "Some context.\n\nSummarise."}]).json()
    assert json.loads(got.stdout)["usage"]["prompt_tokens"] == len(ids["tokens"])


def test_run_raw_json_seed_and_session(daemon):
    raw = daemon.kvern("run", "--raw", "--json", "--temperature", "0", "-n", "8", "One, two, three,")
    assert "four" in json.loads(raw.stdout)["text"]
    one, two = (daemon.kvern("run", "--seed", "5", "--temperature", "1", "-n", "12", "Tell me a story.").stdout
                for _ in range(2))
    assert one == two
    session = daemon.post("/v1/sessions").json()["id"]
    turns = [json.loads(daemon.kvern("run", "--json", "-n", "2", "--session", session, "The same words.").stdout)
             for _ in range(2)]
    assert turns[0]["kvern"]["cache"]["reason"] == "empty"
    assert turns[1]["kvern"]["cache"]["reused"] > 0


def test_tokenize_and_status(daemon):
    ids = daemon.post("/v1/tokenize", text="Hello world").json()["tokens"]
    assert daemon.kvern("tokenize", "Hello world").stdout.split() == [str(i) for i in ids]
    assert daemon.kvern("tokenize", input="Hello world").stdout.split() == [str(i) for i in ids]
    assert "smollm2" in daemon.kvern("status").stdout
    assert json.loads(daemon.kvern("status", "--json").stdout)["status"] == "ok"


def test_errors_have_exit_codes(daemon):
    assert daemon.kvern("frobnicate").returncode == 2
    lost = subprocess.run([KVERN, "--socket", "/nonexistent/s", "run", "hi"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert lost.returncode == 1 and "kvernd" in lost.stderr
    assert daemon.kvern("run", "--session", "s-unknown", "hi").returncode == 1
    assert daemon.kvern("run").returncode == 2


def test_odd_options_are_told_apart(daemon):
    stopped = daemon.kvern("run", "--temperature", "0", "-n", "24", "--stop", "Paris", "--stop", "Rome",
                           "What is the capital of France?")
    assert stopped.returncode == 0 and stopped.stdout == "The capital of France is \n"
    for wrong in (("--seed", "-1"), ("--seed", str(2**64)), ("-n", "0"), ("-n", "-1"), ("--temperature", "nan"),
                  ("--top-p", "2"), ("--top-k", "x")):
        got = daemon.kvern("run", *wrong, "hi")
        assert got.returncode == 2 and wrong[1] in got.stderr and len(got.stderr) < 300, (wrong, got)
    assert daemon.kvern("run", "--seed", str(2**64 - 1), "-n", "1", "hi").returncode == 0


def test_text_that_is_not_utf8_is_named(daemon):
    for command in ("run", "tokenize"):
        got = subprocess.run([KVERN, "--socket", daemon.socket, command, "-"], input=b"caf\xe9", capture_output=True)
        assert got.returncode == 1 and b"byte 3" in got.stderr and b"invalid_utf8" in got.stderr


def test_an_answer_that_cannot_be_written_is_a_failure(daemon):
    for command in (["run", "-n", "2", "hi"], ["run", "--json", "-n", "2", "hi"], ["tokenize", "hi"], ["status"]):
        with open("/dev/full", "w") as full:
            got = subprocess.run([KVERN, "--socket", daemon.socket, *command], stdin=subprocess.DEVNULL, stdout=full,
                                 stderr=subprocess.PIPE, text=True)
        assert got.returncode == 1 and "standard output" in got.stderr, (command, got)


class Terminal:
    """`kvern` with a terminal of its own."""

    def __init__(self, daemon, *arguments):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ["XDG_STATE_HOME"] = daemon.folder.name
            os.environ["TERM"] = "dumb"
            os.execv(KVERN, [str(KVERN), "--socket", daemon.socket, *arguments])
        self.pid, self.text = pid, ""

    def wait_for(self, wanted, deadline=60):
        end = time.monotonic() + deadline
        while wanted not in self.text:
            assert time.monotonic() < end, f"no {wanted!r} in {self.text!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    assert wanted in self.text, f"ended without {wanted!r}: {self.text!r}"
        before, self.text = self.text.split(wanted, 1)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_chat_ctrl_c_ends_the_answer_only(daemon):
    chat = Terminal(daemon, "chat", "-n", "4000", "--temperature", "0")
    chat.wait_for("> ")
    chat.type("Write a very long story about a dragon, in many chapters.\n")
    chat.wait_for("dragon, in many chapters.")
    wait_until(lambda: daemon.metric("kvern_turns_running") == 1, "the answer does not begin")
    chat.wait_for(" ")
    os.kill(chat.pid, signal.SIGINT)
    chat.wait_for("> ")
    wait_until(lambda: daemon.metric("kvern_turns_running") == 0, "the daemon goes on generating")
    chat.type("/exit\n")
    assert chat.end() == 0


def test_chat_takes_what_is_typed(daemon):
    daemon_sessions = len(daemon.http.get("/v1/sessions").json()["data"])
    chat = Terminal(daemon, "chat", "-n", "1", "--temperature", "0")
    chat.wait_for("> ")
    chat.type("half a line")
    chat.wait_for("half a line")
    os.kill(chat.pid, signal.SIGINT)
    chat.wait_for("> ")
    chat.type("Say caf\u00e9 \U0001f980\n")
    chat.wait_for("Say caf\u00e9 \U0001f980")
    chat.wait_for("> ")
    chat.type("\x04")
    assert chat.end() == 0
    with open(os.path.join(daemon.folder.name, "kvern/chat_history"), encoding="utf-8") as history:
        kept = history.read()
    assert "caf\u00e9" in kept and "\U0001f980" in kept and "half" not in kept
    assert len(daemon.http.get("/v1/sessions").json()["data"]) == daemon_sessions


def test_prompt_progress_is_a_bar_on_a_terminal(daemon):
    run = Terminal(daemon, "run", "-n", "1", "word " * 3000)
    assert "%" in run.wait_for("3")
    run.wait_for("100%")
    while True:
        try:
            if not os.read(run.fd, 4096):
                break
        except OSError:
            break
    assert run.end() == 0
