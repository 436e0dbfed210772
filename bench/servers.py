"""The servers that the scripts of this folder measure: kvernd, or llama-server beside it where it has been built
(bench/peers/build-llama-cpp), each on a Unix socket in a scratch folder; or one that runs already."""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Connection(http.client.HTTPConnection):
    def __init__(self, server):
        super().__init__("localhost")
        self.server = server

    def connect(self):
        self.sock = self.server.connect()


class Server:
    """An address that serves HTTP, and the kind of what serves there, "kvern" or "llama". With a process of its own: that
    ends with the `with` block."""

    def __init__(self, address, kind, process=None):
        self.address, self.kind, self.process = address, kind, process

    def connect(self):
        made = socket.socket(socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET)
        made.settimeout(600)
        made.connect(self.address)
        return made

    def ask(self, method, path, body=None):
        """Status and content of the answer, on a connection of its own."""
        connection = Connection(self)
        try:
            if body is None:
                connection.request(method, path)
            else:
                connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            got = connection.getresponse()
            return got.status, got.read()
        finally:
            connection.close()

    def must(self, method, path, **body):
        """The JSON of the answer; ends the program where it is an error."""
        status, answer = self.ask(method, path, body or None)
        if status >= 300:
            raise SystemExit(f"{path}: {status} {answer[-500:]!r}")
        return json.loads(answer)

    def healthy(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def new_session(self):
        """A conversation's name; llama-server finds its slot by the prompt."""
        return self.must("POST", "/v1/sessions")["id"] if self.kind == "kvern" else None

    def counters(self):
        """kvernd's own counters, those without labels: name -> value."""
        if self.kind != "kvern":
            return {}
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)
                if name.startswith("kvern_") and "{" not in name}

    def resident(self):
        """Resident bytes, those of mapped files included, and how many of them nobody else has."""
        rss = private = 0
        for line in open(f"/proc/{self.process.pid}/smaps_rollup"):
            name, _, value = line.partition(":")
            if name == "Rss":
                rss = int(value.split()[0]) * 1024
            if name in ("Private_Clean", "Private_Dirty"):
                private += int(value.split()[0]) * 1024
        return rss, private

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)


def started(command, path, kind, folder):
    """The server that the command starts, once it says that it is healthy."""
    log = pathlib.Path(folder) / f"{kind}.log"
    with open(log, "w") as out:
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    server = Server(path, kind, process)
    end = time.monotonic() + 120
    while not server.healthy():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise SystemExit(f"{command[0]} did not come up: {log.read_text()[-2000:]}")
        time.sleep(0.005)
    return server


def kvernd(binary, model, folder, *options):
    path = os.path.join(folder, "kvern.sock")
    return started([binary, "--model", model, "--socket", path, "--log-level", "warning", *options], path, "kvern", folder)


def llama_binary(peers):
    return pathlib.Path(peers) / "llama.cpp/bin/llama-server"


def llama_server(peers, model, folder, *options):
    path = os.path.join(folder, "llama.sock")
    return started([llama_binary(peers), "-m", model, "--host", path, *options], path, "llama", folder)


def add_binaries(parser):
    parser.add_argument("--kvernd", default=ROOT / "build/release/daemon/kvernd")
    parser.add_argument("--model", default=ROOT / "models/smollm2.gguf")


def add_server_options(parser):
    """What chooses and describes the server of `server_for`."""
    add_binaries(parser)
    parser.add_argument("--server", choices=["kvern", "llama"], default="kvern")
    parser.add_argument("--url", help="a server that runs, of the kind that --server says: http://HOST:PORT or unix:PATH")
    parser.add_argument("--peers", default=ROOT / "build/peers")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--slots", type=int, help="llama-server's, if not one for each sequence")
    parser.add_argument("--kv-memory", help="kvernd's, such as 2GiB")
    parser.add_argument("--options", default="", help="more flags for the server")
    parser.add_argument("--seed", type=int, default=1)


def server_for(arguments, folder, context, parallel):
    """The server to measure, with room for `parallel` sequences of `context` tokens."""
    more = arguments.options.split()
    if arguments.url and arguments.url.startswith("unix:"):
        return Server(arguments.url[5:], arguments.server)
    if arguments.url:
        url = urllib.parse.urlparse(arguments.url)
        return Server((url.hostname, url.port or 80), arguments.server)
    if arguments.server == "kvern":
        memory = ["--kv-memory", arguments.kv_memory] if arguments.kv_memory else []
        return kvernd(arguments.kvernd, arguments.model, folder, "--context", context, "--threads", arguments.threads, *memory, *more)
    return llama_server(arguments.peers, arguments.model, folder, "-c", context * parallel, "-np", arguments.slots or parallel,
                        "-t", arguments.threads, *more)
