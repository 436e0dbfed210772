"""Starts real daemons for the tests: the release build, on sockets in scratch folders."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KVERND = ROOT / "build/release/daemon/kvernd"
KVERN = ROOT / "build/release/daemon/cli/kvern"
SMOLLM2 = ROOT / "models/smollm2.gguf"
TINY = ROOT / "tests/golden/arch/llama.gguf"
DEADLINE = 60.0


def wait_until(condition, what, deadline=DEADLINE):
    """Polls a condition of another process; fails with `what` when it does not come to hold."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    pytest.fail(f"timed out: {what}")


class Daemon:
    """A running kvernd. `http` is an httpx client on its socket."""

    def __init__(self, *arguments, model=SMOLLM2, env=None, socket_path=None):
        self.folder = tempfile.TemporaryDirectory(prefix="kvern-e2e-")
        self.socket = socket_path or os.path.join(self.folder.name, "kvern.sock")
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        self.process = subprocess.Popen(
            [KVERND, "--model", model, "--socket", self.socket, *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})})
        self.http = httpx.Client(transport=httpx.HTTPTransport(uds=self.socket), base_url="http://kvern", timeout=120)
        wait_until(self.answers_or_ended, "the daemon did not come up")
        if self.process.poll() is not None:
            pytest.fail(f"kvernd ended with {self.process.returncode}: {self.logged()}")

    def answers_or_ended(self):
        if self.process.poll() is not None:
            return True
        try:
            return self.http.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def logged(self):
        return pathlib.Path(self.log.name).read_text()

    def openai(self):
        return openai.OpenAI(base_url="http://kvern/v1", api_key="unused", max_retries=0,
                             http_client=httpx.Client(transport=httpx.HTTPTransport(uds=self.socket), timeout=120))

    def raw(self):
        """A plain connected socket."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(DEADLINE)
        s.connect(self.socket)
        return s

    def post(self, path, **body):
        return self.http.post(path, json=body)

    def kvern(self, *arguments, **options):
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        if "input" in options:
            options.pop("stdin")
        return subprocess.run([KVERN, "--socket", self.socket, *arguments], capture_output=True, text=True, timeout=120,
                              **options)

    def metric(self, name):
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith(name + " ") or line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        raise KeyError(name)

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout=15)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.http.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        self.folder.cleanup()


def events(response):
    """The data of each server-sent event of a streamed httpx response, '[DONE]' as it is."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            data = line[len("data: "):]
            yield data if data == "[DONE]" else json.loads(data)


@pytest.fixture(scope="session")
def daemon():
    """One daemon with the real model for the tests that do not need their own."""
    with Daemon() as running:
        yield running
