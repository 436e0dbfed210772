#!/usr/bin/env python3
"""What a server takes from its machine: kvernd, or llama-server beside it (bench/peers/build-llama-cpp).

    bench/footprint.py start    from the start of the process to the first answer of GET /health with 200
    bench/footprint.py memory   resident memory with sessions of so many tokens, each of its own
    bench/footprint.py rest     processor time used while nothing is asked, after some requests

--server chooses kvern or llama. llama-server allocates and clears its whole cache at the start, so its sessions are not
filled: what it has then is the least it can have. Prompts are random token ids.
"""
import argparse
import json
import os
import random
import time

from servers import add_server_options, server_for
from serving import Stream, finish, run, tokens, warm_up


def start(arguments, folder):
    begin = time.monotonic()
    with server_for(arguments, folder, arguments.context, 1) as server:
        took = time.monotonic() - begin
        rss, _ = server.resident()
    print(f"ready after {took * 1e3:.0f} ms, with {rss / 2**20:.0f} MiB")
    return {"ready": took, "resident": rss}


def memory(arguments, folder):
    numbers = random.Random(arguments.seed)
    context = arguments.tokens + 32
    arguments.kv_memory = arguments.kv_memory or "2GiB"  # so that no session is evicted
    with server_for(arguments, folder, context, arguments.sessions) as server:
        warm_up(server, numbers, context)
        before, _ = server.resident()
        if arguments.server == "kvern":
            for _ in range(arguments.sessions):
                finish(Stream(server, tokens(numbers, arguments.tokens - 1), 1, server.new_session()))
            time.sleep(1)  # what the last turn leaves is returned a moment later
            cache = json.loads(server.ask("GET", "/health")[1])["cache"]
            if cache["pages_used"] < arguments.sessions * arguments.tokens // 32:
                raise SystemExit(f"only {cache['pages_used']} pages are in use: give more --kv-memory")
        after, _ = server.resident()
    print(f"{arguments.sessions} sessions of {arguments.tokens} tokens: {after / 2**20:.0f} MiB resident, {before / 2**20:.0f} before")
    return {"resident": after}


def processor_seconds(process):
    fields = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rest(arguments, folder):
    numbers = random.Random(arguments.seed)
    with server_for(arguments, folder, arguments.context, 1) as server:
        warm_up(server, numbers, arguments.context)
        time.sleep(1)
        before = processor_seconds(server.process)
        time.sleep(arguments.seconds)
        used = processor_seconds(server.process) - before
    print(f"{used:.2f} s of processor time in {arguments.seconds} s at rest: {100 * used / arguments.seconds:.1f} % of a core")
    return {"used": used}


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(made)
    what = made.add_subparsers(required=True)
    one = what.add_parser("start")
    one.add_argument("--context", type=int, default=8192, help="tokens of a session")
    one.set_defaults(run=start)
    two = what.add_parser("memory")
    two.add_argument("--sessions", type=int, default=16)
    two.add_argument("--tokens", type=int, default=4096)
    two.set_defaults(run=memory)
    three = what.add_parser("rest")
    three.add_argument("--context", type=int, default=8192, help="tokens of a session")
    three.add_argument("--seconds", type=float, default=20)
    three.set_defaults(run=rest)
    return made


if __name__ == "__main__":
    run(parser())
