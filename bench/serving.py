#!/usr/bin/env python3
"""What clients of a server see, over its socket: kvernd, or llama-server beside it where it has been built
(bench/peers/build-llama-cpp).

    bench/serving.py gap         four streams run while a long prompt arrives: how long they wait, how long it takes
    bench/serving.py clients     many clients at once: tokens a second in all, time to the first token
    bench/serving.py follow-ups  conversations taken in turn, a few new tokens each time: time to the first token

Each starts the server that --server names on a socket of its own, or uses one that runs: --url http://127.0.0.1:8080,
--url unix:/run/kvern/kvern.sock. Prompts are random token ids, no two alike. Times are the client's, from the moment it
sends a request; one thread reads all streams and takes them apart only when they have ended.
"""
import argparse
import functools
import json
import random
import selectors
import tempfile
import time

from servers import add_server_options, server_for


def request_of(kind, prompt, count, session):
    """Path and body of a streamed completion of `count` tokens."""
    body = {"prompt": prompt, "stream": True, "temperature": 0, "ignore_eos": True}
    if kind == "kvern":
        named = {} if session is None else {"session": session}
        return "/v1/completions", {**body, **named, "max_tokens": count, "return_token_ids": True}
    return "/completion", {**body, "n_predict": count, "return_tokens": True, "cache_prompt": True, "timings_per_token": False}


def ids_of(kind, event):
    if kind == "kvern":
        return [token for choice in event.get("choices", []) for token in choice.get("token_ids") or []]
    return event.get("tokens") or []


class Stream:
    """One streamed completion, from its request to its last byte."""

    def __init__(self, server, prompt, count, session=None):
        self.kind = server.kind
        self.pieces = []  # (when, bytes)
        self.ended = False
        self.socket = server.connect()
        self.path, body = request_of(server.kind, prompt, count, session)
        body = json.dumps(body).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.sent = time.monotonic()
        self.socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.socket.setblocking(False)

    def fileno(self):
        return self.socket.fileno()

    def read(self):
        data = self.socket.recv(1 << 16)
        if data:
            self.pieces.append((time.monotonic(), data))
        else:
            self.ended = True
            self.socket.close()
            if not self.pieces or not self.pieces[0][1].startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{self.path}: {self.pieces[0][1][-500:] if self.pieces else 'no answer'!r}")

    def begun(self, tokens=1):
        """Whether so many tokens have come, about: counted without taking anything apart."""
        return sum(data.count(b"data: {") for _, data in self.pieces) > tokens

    def events(self):
        """(when it came, its JSON) of every event."""
        out, rest, chunked = [], b"", b""
        head = True
        for when, data in self.pieces:
            chunked += data
            if head:
                head = False
                before, _, chunked = chunked.partition(b"\r\n\r\n")
                plain = b"chunked" not in before.lower()
            while chunked:  # the length of a chunk, the chunk, an end of line
                if plain:
                    rest, chunked = rest + chunked, b""
                    break
                size, found, after = chunked.partition(b"\r\n")
                length = int(size, 16) if found else 0
                if not found or len(after) < length + 2:
                    break
                rest += after[:length]
                chunked = after[length + 2:]
            *whole, rest = rest.split(b"\n\n")
            for event in whole:
                if event.startswith(b"data: {"):
                    out.append((when, json.loads(event[6:])))
        return out

    @functools.cached_property
    def tokens(self):
        """(when it came, its id) of every token of a stream that has ended."""
        return [(when, token) for when, event in self.events() for token in ids_of(self.kind, event)]

    def first(self):
        """Seconds to the first token."""
        return self.tokens[0][0] - self.sent


def read_until(streams, done):
    """Reads all streams until `done()` or their end."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            if not stream.ended:
                selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map() and not done():
            for key, _ in selector.select():
                key.data.read()
                if key.data.ended:
                    selector.unregister(key.fd)


def finish(*streams):
    read_until(streams, lambda: False)
    return streams


def tokens(numbers, count):
    return [numbers.randrange(1000, 40000) for _ in range(count)]


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def daemons_share(before, after):
    """What kvernd's worker did between two looks at its counters, printed; and, as figures, the share of its time in steps
    that is not the model's, without and with the time between steps."""
    if not after:
        return {}
    steps, worker, model, between = (after[f"kvern_{name}_total"] - before[f"kvern_{name}_total"]
                                     for name in ("steps", "step_seconds", "backend_seconds", "between_seconds"))
    beside = worker - model
    print(f"steps                 {steps:.0f}, {model / steps * 1e3:.2f} ms each in the model, {beside / steps * 1e6:.0f} us "
          f"beside it, {between / steps * 1e6:.0f} us between steps")
    return {"daemon_share": beside / worker, "daemon_share_with_between": (beside + between) / (worker + between)}


def warm_up(server, numbers, context):
    """What only the first requests pay, and what kvernd learns of its machine."""
    finish(*[Stream(server, tokens(numbers, min(count, context - 16)), 16) for count in (700, 300)])


def gap(arguments, folder):
    numbers = random.Random(arguments.seed)
    with server_for(arguments, folder, arguments.context, arguments.streams + 1) as server:
        warm_up(server, numbers, arguments.context)
        [alone] = finish(Stream(server, tokens(numbers, arguments.prompt), 1))
        streams = [Stream(server, tokens(numbers, 64), arguments.tokens) for _ in range(arguments.streams)]
        read_until(streams, lambda: all(stream.begun(10) for stream in streams))
        before = server.counters()
        prompt = Stream(server, tokens(numbers, arguments.prompt), 1)
        read_until([*streams, prompt], lambda: prompt.ended)
        after = server.counters()
        finish(*streams)
    first = prompt.sent + prompt.first()
    if any(stream.tokens[-1][0] < first for stream in streams):
        raise SystemExit(f"A stream had its {arguments.tokens} tokens before the prompt's first one came: take more --tokens.")
    gaps, during = [], 0
    for stream in streams:
        times = [when for when, _ in stream.tokens]
        gaps += [b - a for a, b in zip(times, times[1:]) if b > prompt.sent and a < first]
        during += sum(prompt.sent < when < first for when in times)
    print(f"{arguments.streams} streams, and a prompt of {arguments.prompt} tokens arrives")
    print(f"gap between tokens    p50 {quantile(gaps, 0.5) * 1e3:7.1f}   p99 {quantile(gaps, 0.99) * 1e3:7.1f}   longest "
          f"{max(gaps) * 1e3:7.1f} ms   ({during} tokens meanwhile)")
    print(f"its first token       alone {alone.first():7.2f} s   in company {prompt.first():7.2f} s   x {prompt.first() / alone.first():.2f}")
    return {"longest_gap": max(gaps), "p99_gap": quantile(gaps, 0.99), "first_alone": alone.first(), "first_in_company": prompt.first(),
            "times": prompt.first() / alone.first(), **daemons_share(before, after)}


def clients(arguments, folder):
    numbers = random.Random(arguments.seed)
    with server_for(arguments, folder, arguments.context, arguments.clients) as server:
        warm_up(server, numbers, arguments.context)
        before, start = server.counters(), time.monotonic()
        streams = finish(*[Stream(server, tokens(numbers, arguments.prompt), arguments.tokens) for _ in range(arguments.clients)])
        took = time.monotonic() - start
        after = server.counters()
    firsts = [stream.first() for stream in streams]
    count = sum(len(stream.tokens) for stream in streams)
    all_begun = max(stream.tokens[0][0] for stream in streams)
    one_ended = min(stream.tokens[-1][0] for stream in streams)
    together = sum(all_begun < when <= one_ended for stream in streams for when, _ in stream.tokens)
    print(f"{arguments.clients} clients, prompts of {arguments.prompt} tokens, {arguments.tokens} new tokens each")
    print(f"tokens a second       {count / took:7.1f}   ({count} in {took:.2f} s; {together / (one_ended - all_begun):.1f} while all run)")
    print(f"time to first token   p50 {quantile(firsts, 0.5):7.3f}   p99 {quantile(firsts, 0.99):7.3f} s")
    return {"tokens_per_second": count / took, "first_p50": quantile(firsts, 0.5), "first_p99": quantile(firsts, 0.99),
            **daemons_share(before, after)}


def follow_ups(arguments, folder):
    numbers = random.Random(arguments.seed)
    firsts = []
    with server_for(arguments, folder, arguments.context, arguments.conversations) as server:
        warm_up(server, numbers, arguments.context)
        before = server.counters()
        talks = [(server.new_session(), []) for _ in range(arguments.conversations)]
        for turn in range(arguments.turns + 1):
            for session, history in talks:
                history += tokens(numbers, arguments.new if turn else arguments.first)
                [stream] = finish(Stream(server, history, arguments.answer, session))
                history += [token for _, token in stream.tokens]
                if turn:  # the first is no follow-up
                    firsts.append(stream.first())
        after = server.counters()
    print(f"{arguments.conversations} conversations in turn, {arguments.turns} follow-ups of {arguments.new} new tokens each, "
          f"answers of {arguments.answer}; up to {max(len(h) for _, h in talks)} tokens")
    print(f"time to first token   p50 {quantile(firsts, 0.5) * 1e3:7.1f}   p99 {quantile(firsts, 0.99) * 1e3:7.1f} ms")
    return {"first_p50": quantile(firsts, 0.5), "first_p99": quantile(firsts, 0.99), **daemons_share(before, after)}


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(made)
    what = made.add_subparsers(required=True)
    one = what.add_parser("gap")
    one.add_argument("--streams", type=int, default=4)
    one.add_argument("--context", type=int, default=8192, help="tokens of a sequence")
    one.add_argument("--tokens", type=int, default=400, help="of each stream")
    one.add_argument("--prompt", type=int, default=6000)
    one.set_defaults(run=gap)
    two = what.add_parser("clients")
    two.add_argument("--context", type=int, default=512, help="tokens of a sequence")
    two.add_argument("--clients", type=int, default=16)
    two.add_argument("--prompt", type=int, default=128)
    two.add_argument("--tokens", type=int, default=128)
    two.set_defaults(run=clients)
    three = what.add_parser("follow-ups")
    three.add_argument("--context", type=int, default=2048, help="tokens of a sequence")
    three.add_argument("--conversations", type=int, default=8)
    three.add_argument("--turns", type=int, default=6)
    three.add_argument("--first", type=int, default=500)
    three.add_argument("--new", type=int, default=60)
    three.add_argument("--answer", type=int, default=32)
    three.set_defaults(run=follow_ups)
    return made


def run(made):
    """What the command line says of `made`, a parser whose experiments are `run`, in a folder of its own."""
    arguments = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvern-bench-") as folder:
        arguments.run(arguments, folder)


if __name__ == "__main__":
    run(parser())
