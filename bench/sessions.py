#!/usr/bin/env python3
"""What sessions cost a running kvernd: memory of many idle ones behind one system prompt, and tokens computed in a long
conversation, beside llama-server's own counts where it has been built (bench/peers/build-llama-cpp).

    bench/sessions.py idle         [--sessions 1000] [--own 200] [--shared 2000] [--kv-type f16]
    bench/sessions.py conversation [--turns 50] [--peers build/peers]

Both start what they measure on sockets of their own, with prompts as token ids.
"""
import argparse
import os
import random
import tempfile
import time

import servers

PAGE_LINES = 32
SESSION_BYTES = 2048


def tokens(random_numbers, count):
    return [random_numbers.randrange(100, 40000) for _ in range(count)]


def complete(daemon, prompt, session, count):
    return daemon.must("POST", "/v1/completions", prompt=prompt, session=session, max_tokens=count, temperature=0, ignore_eos=True,
                       return_token_ids=True)


def idle(arguments, folder):
    numbers = random.Random(1)
    system = tokens(numbers, arguments.shared)
    with servers.kvernd(arguments.kvernd, arguments.model, folder, "--kv-memory", arguments.kv_memory, "--kv-type", arguments.kv_type) as daemon:
        warm = daemon.must("POST", "/v1/sessions")["id"]
        complete(daemon, tokens(numbers, 600), warm, 1)  # what the first request allocates is not a session's
        daemon.must("DELETE", f"/v1/sessions/{warm}")
        time.sleep(1)  # the figures of /health lag behind a step
        rss_before, private_before = daemon.resident()
        cache_before = daemon.must("GET", "/health")["cache"]
        computed = 0
        start = time.monotonic()
        for n in range(arguments.sessions):
            id = daemon.must("POST", "/v1/sessions")["id"]
            answer = complete(daemon, system + tokens(numbers, arguments.own), id, 1)
            computed += answer["kvern"]["cache"]["computed"]
            if (n + 1) % 100 == 0:
                print(f"  {n + 1} sessions, {time.monotonic() - start:.0f} s", flush=True)
        time.sleep(1)
        rss, private = daemon.resident()
        health = daemon.must("GET", "/health")
    cache = health["cache"]
    pages = cache["pages_used"] - cache_before["pages_used"]
    full = arguments.shared // PAGE_LINES
    expected = pages * cache["page_bytes"] + arguments.sessions * SESSION_BYTES
    own_pages = -(-(arguments.shared + arguments.own) // PAGE_LINES) - full
    print(f"{arguments.sessions} sessions ({health['sessions']} counted) of {arguments.own} tokens behind {arguments.shared} shared ones, "
          f"{arguments.kv_type} lines, layout {cache['layout']}")
    print(f"prompt tokens computed  {computed:12}   (without sharing {arguments.sessions * (arguments.shared + arguments.own)})")
    print(f"pages_used              {pages:12}   ({full} of the shared prompt and {own_pages} for each session: "
          f"{full + arguments.sessions * own_pages})")
    print(f"pages_shared            {cache['pages_shared']:12}   ({full} full pages of the shared prompt)")
    print(f"expected MiB            {expected / 2**20:12.1f}   (pages x {cache['page_bytes']} bytes, {SESSION_BYTES} bytes a session)")
    for name, after, before in (("resident", rss, rss_before), ("private", private, private_before)):
        grown = after - before
        print(f"{name + ' MiB, grown by':23} {grown / 2**20:12.1f}   {(grown / expected - 1) * 100:+.1f} %   "
              f"(from {before / 2**20:.1f} to {after / 2**20:.1f})")
    beside = private - private_before - pages * cache["page_bytes"]
    print(f"beside pages, a session {beside / arguments.sessions:12.0f}   bytes")


def conversation(arguments, folder):
    numbers = random.Random(2)
    said = [tokens(numbers, numbers.randrange(10, 60)) for _ in range(arguments.turns)]
    context = sum(map(len, said)) + arguments.turns * arguments.answer + 64
    computed, lengths, answers = [], [], []
    with servers.kvernd(arguments.kvernd, arguments.model, folder, "--context", context) as daemon:
        session, history = daemon.must("POST", "/v1/sessions")["id"], []
        for turn in said:
            history += turn
            answer = complete(daemon, history, session, arguments.answer)
            computed.append(answer["kvern"]["cache"]["computed"])
            lengths.append(len(history))
            answers.append(answer["choices"][0]["token_ids"])
            history = history + answers[-1]
    # The last token of an answer was sampled and sent, never computed: its line is the next turn's to compute.
    new = [len(said[0])] + [len(turn) + 1 for turn in said[1:]]
    print(f"{arguments.turns} turns of one conversation, answers of {arguments.answer} tokens, {lengths[-1]} tokens in the last prompt")
    print(f"new prompt tokens          {sum(map(len, said)):8}   and the last token of each answer before: {sum(new)}")
    print(f"computed by kvernd         {sum(computed):8}   {'turn for turn equal' if computed == new else 'NOT EQUAL'}")
    print(f"prompt tokens, all turns   {sum(lengths):8}")
    binary = servers.llama_binary(arguments.peers)
    if not binary.exists():
        print(f"llama-server               not built ({binary})")
        return
    with servers.llama_server(arguments.peers, arguments.model, folder, "-c", context, "-np", 1, "-t", os.cpu_count()) as server:
        counts, history = [], []
        for turn, answer in zip(said, answers):
            history += turn
            got = server.must("POST", "/completion", prompt=history, n_predict=arguments.answer, cache_prompt=True, temperature=0,
                              ignore_eos=True, return_tokens=True, id_slot=0)
            counts.append(got["timings"]["prompt_n"])
            history = history + got["tokens"]
    print(f"computed by llama-server   {sum(counts):8}   (timings.prompt_n with cache_prompt)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers.add_binaries(parser)
    what = parser.add_subparsers(required=True)
    one = what.add_parser("idle")
    one.add_argument("--sessions", type=int, default=1000)
    one.add_argument("--own", type=int, default=200)
    one.add_argument("--shared", type=int, default=2000)
    one.add_argument("--kv-type", default="f16")
    one.add_argument("--kv-memory", default="7GiB")
    one.set_defaults(run=idle)
    two = what.add_parser("conversation")
    two.add_argument("--turns", type=int, default=50)
    two.add_argument("--answer", type=int, default=24)
    two.add_argument("--peers", default=servers.ROOT / "build/peers")
    two.set_defaults(run=conversation)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvern-bench-") as folder:
        arguments.run(arguments, folder)


if __name__ == "__main__":
    main()
