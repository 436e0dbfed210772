#!/usr/bin/env python3
"""What kvernd's forward pass loses to another process that keeps one of the cores busy.

    bench/busy_core.py [MODEL] [--threads N] [--runs 5]

Runs bench_forward (a prompt of 512 tokens, 128 decoded tokens) alone and beside an endless loop that stays on the last core,
in turn. Of n cores with as many compute threads, a fair scheduler leaves (n - 1/2) / n of the machine, and what is lost should
be no more than that.
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def spin(core):
    os.sched_setaffinity(0, {core})
    while True:
        pass


def speeds(arguments):
    out = subprocess.run([arguments.bench, arguments.model, "-t", str(arguments.threads), "-r", "1"], check=True, capture_output=True,
                         text=True).stdout
    return [float(re.search(rf"{name}\s+([0-9.]+) tokens/s", out).group(1)) for name in ("pp512", "tg128")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=str(ROOT / "models/smollm2.gguf"))
    parser.add_argument("--bench", default=str(ROOT / "build/bench/bench/bench_forward"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    alone, beside = [], []
    for _ in range(arguments.runs):
        alone.append(speeds(arguments))
        hog = multiprocessing.Process(target=spin, args=(cores[-1],), daemon=True)
        hog.start()
        beside.append(speeds(arguments))
        hog.kill()
        hog.join()
    fair = (len(cores) - 0.5) / len(cores)
    print(f"{arguments.threads} threads on {len(cores)} cores, one of them busy; medians of {arguments.runs}; fair share {fair:.2f}")
    for i, name in enumerate(("prompt 512", "decode 128")):
        shares = [b[i] / a[i] for a, b in zip(alone, beside)]
        print(f"{name}: alone {statistics.median(a[i] for a in alone):.0f}, beside {statistics.median(b[i] for b in beside):.0f} tokens/s: "
              f"{statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


if __name__ == "__main__":
    main()
