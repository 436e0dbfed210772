"""Start, stop, and what can be wrong with a model file, a socket or a configuration."""
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from conftest import KVERND, TINY, Daemon, events, wait_until


def kvernd(*arguments, **options):
    return subprocess.run([KVERND, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **options)


def test_version_help_and_check(tmp_path):
    assert kvernd("--version").stdout.startswith("kvernd ")
    assert "--kv-memory" in kvernd("--help").stdout
    checked = kvernd("--check", "--model", TINY, "--socket", tmp_path / "s")
    assert checked.returncode == 0 and not (tmp_path / "s").exists()
    assert kvernd("--check", "--model", tmp_path / "none", "--socket", tmp_path / "s").returncode == 3


def test_configuration_errors(tmp_path):
    config = tmp_path / "k.toml"
    config.write_text("modle = 'x'\n")
    got = kvernd("--config", config)
    assert got.returncode == 2 and "modle" in got.stderr and "model" in got.stderr
    assert kvernd("--bogus").returncode == 2
    assert kvernd("--socket", tmp_path / "s").returncode == 2
    assert kvernd("--model", TINY, "--socket", tmp_path / "s", "--kv-memory", "1").returncode == 2
    assert kvernd("--model", TINY, "--socket", tmp_path / "s", "--context", "100000000").returncode == 2
    too_much = kvernd("--model", TINY, "--socket", tmp_path / "s", "--kv-memory", "900TiB")
    assert too_much.returncode == 2 and "kv_memory" in too_much.stderr


def test_model_files_that_cannot_be_loaded(tmp_path):
    whole = TINY.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-1])
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "text.gguf").write_text("hello")
    (tmp_path / "folder.gguf").mkdir()
    for name, word in (("missing.gguf", ""), ("cut.gguf", "truncated"), ("empty.gguf", ""), ("text.gguf", ""),
                       ("folder.gguf", "folder")):
        got = kvernd("--model", tmp_path / name, "--socket", tmp_path / "s")
        assert got.returncode == 3, (name, got)
        assert name in got.stderr and word in got.stderr, got.stderr
        assert not (tmp_path / "s").exists()
    qwen2 = TINY.parent / "qwen2.gguf"
    got = kvernd("--model", qwen2, "--socket", tmp_path / "s")
    assert got.returncode == 3 and "qwen2" in got.stderr


def test_socket_paths(tmp_path):
    folder = str(tmp_path) + "/"
    longest = folder + "s" * (107 - len(folder))
    with Daemon(model=TINY, socket_path=longest) as running:
        assert kvernd("--model", TINY, "--socket", longest).returncode == 4
        assert running.http.get("/health").status_code == 200
    assert not os.path.exists(longest)
    assert kvernd("--model", TINY, "--socket", longest + "s").returncode == 2

    stale = folder + "stale"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(stale)
    dead.close()
    with Daemon(model=TINY, socket_path=stale):
        pass

    plain = tmp_path / "plain"
    plain.write_text("precious")
    assert kvernd("--model", TINY, "--socket", plain).returncode == 2
    assert plain.read_text() == "precious"
    assert kvernd("--model", TINY, "--socket", tmp_path / "none" / "s").returncode == 2


def test_a_killed_daemon_leaves_a_socket_that_the_next_one_takes(tmp_path):
    path = str(tmp_path / "s")
    first = Daemon(model=TINY, socket_path=path)
    first.stop(signal.SIGKILL)
    assert os.path.exists(path)
    with Daemon(model=TINY, socket_path=path):
        pass


def test_socket_mode(tmp_path):
    with Daemon("--socket-mode", "0600", model=TINY) as running:
        assert os.stat(running.socket).st_mode & 0o777 == 0o600
    with Daemon(model=TINY) as running:
        assert os.stat(running.socket).st_mode & 0o777 == 0o660


LONG = {"prompt": "Once upon a time", "ignore_eos": True, "stream": True}


@pytest.mark.parametrize("prompt", ["Once upon a time", [5] * 8000])
def test_sigterm_ends_streams_with_an_error_event(prompt):
    with Daemon() as running:
        with running.http.stream("POST", "/v1/completions", json={**LONG, "prompt": prompt}) as response:
            wait_until(lambda: running_turns(running) == 1, "the turn does not begin")
            begin = time.monotonic()
            running.process.send_signal(signal.SIGTERM)
            running.process.send_signal(signal.SIGTERM)
            last = [e for e in events(response) if e != "[DONE]"][-1]
        assert last["error"]["code"] == "shutting_down"
        assert running.process.wait(timeout=10) == 0
        assert time.monotonic() - begin < 5
        assert not os.path.exists(running.socket)


def running_turns(daemon):
    import httpx
    with httpx.Client(transport=httpx.HTTPTransport(uds=daemon.socket)) as other:
        for line in other.get("http://kvern/metrics").text.splitlines():
            if line.startswith("kvern_turns_running"):
                return float(line.rsplit(" ", 1)[1])


def test_sigterm_while_idle_with_open_connections():
    running = Daemon(model=TINY)
    with running.raw():
        begin = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - begin < 5


def test_socket_activation_and_readiness(tmp_path):
    path = str(tmp_path / "activated")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(tmp_path / "notify"))
    notify.settimeout(60)

    env = {**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    script = 'export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@"'
    process = subprocess.Popen(["sh", "-c", script, "sh", str(KVERND), "--model", str(TINY)], env=env,
                               preexec_fn=lambda: os.dup2(listener.fileno(), 3), pass_fds=(3,), close_fds=True)
    try:
        seen = []
        while not any("READY=1" in s for s in seen):
            seen.append(notify.recv(4096).decode())
        assert any("STATUS=" in s for s in seen)
        while "WATCHDOG=1" not in seen[-1]:
            seen.append(notify.recv(4096).decode())
        got = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://k/health"], capture_output=True, text=True)
        assert json.loads(got.stdout)["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        while "STOPPING=1" not in seen[-1]:
            seen.append(notify.recv(4096).decode())
        assert os.path.exists(path), "a socket that systemd made stays"
    finally:
        process.kill()
        process.wait()
