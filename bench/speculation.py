#!/usr/bin/env python3
"""What prompt lookup gains a running kvernd: the same requests with it and without, one after the other on one daemon.

    bench/speculation.py [--rounds 5] [--only edit] [--model models/smollm2.gguf]

`edit` asks for a source file of the prompt to be repeated with a name changed, `quote` for a text of the prompt, `prose`
for a story in which nothing repeats. All are greedy; `sampled` is `prose` at temperature 0.8. Times are those of whole
answers, end to end, the prompt in the session's cache; answers must be equal, token for token. `auto` is what a request
gets that says nothing; `on` is "prompt_lookup": true.
"""
import argparse
import os
import pathlib
import statistics
import tempfile
import time

from sessions import ROOT, kvernd

SOURCE = '''import argparse
import csv
import pathlib
import sys
from dataclasses import dataclass, field


@dataclass
class Item:
    """One line of an order."""

    name: str
    price: float
    quantity: int = 1
    tags: list = field(default_factory=list)

    def total(self):
        return self.price * self.quantity

    def has_tag(self, tag):
        return tag in self.tags


class Basket:
    """The items of one customer, and what they cost together."""

    def __init__(self, customer, discount=0.0):
        self.customer = customer
        self.discount = discount
        self.items = []

    def add(self, item):
        for other in self.items:
            if other.name == item.name and other.price == item.price:
                other.quantity += item.quantity
                return other
        self.items.append(item)
        return item

    def remove(self, name):
        before = len(self.items)
        self.items = [item for item in self.items if item.name != name]
        return before - len(self.items)

    def subtotal(self):
        return sum(item.total() for item in self.items)

    def total(self):
        return self.subtotal() * (1.0 - self.discount)

    def by_tag(self, tag):
        return [item for item in self.items if item.has_tag(tag)]

    def cheapest(self):
        if not self.items:
            return None
        return min(self.items, key=lambda item: item.price)

    def dearest(self):
        if not self.items:
            return None
        return max(self.items, key=lambda item: item.price)


def read_basket(path, customer):
    basket = Basket(customer)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            tags = row.get("tags", "").split(";")
            basket.add(Item(row["name"], float(row["price"]), int(row["quantity"]), tags))
    return basket


def write_basket(basket, path):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "price", "quantity", "tags"])
        for item in basket.items:
            writer.writerow([item.name, item.price, item.quantity, ";".join(item.tags)])


def format_basket(basket):
    lines = [f"Basket of {basket.customer}"]
    for item in basket.items:
        lines.append(f"{item.quantity:4} x {item.name:20} {item.total():10.2f}")
    lines.append(f"Subtotal {basket.subtotal():10.2f}")
    if basket.discount > 0:
        lines.append(f"Discount {basket.discount * 100:9.0f}%")
    lines.append(f"Total    {basket.total():10.2f}")
    return "\\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Shows what a basket costs.")
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--customer", default="nobody")
    parser.add_argument("--discount", type=float, default=0.0)
    parser.add_argument("--tag")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    if not arguments.path.exists():
        print(f"{arguments.path} does not exist", file=sys.stderr)
        return 1
    basket = read_basket(arguments.path, arguments.customer)
    basket.discount = arguments.discount
    if arguments.tag:
        basket.items = basket.by_tag(arguments.tag)
    print(format_basket(basket))
    if arguments.output:
        write_basket(basket, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''
TEXT = ("The lighthouse at the end of the bay was built in 1871, after the third wreck of that winter. It stands on a rock that "
        "is dry for two hours a day, and the masons slept on the ship that had brought the granite. The lamp burned whale oil, "
        "later paraffin, and since 1952 it has been electric. The last keeper, a woman of seventy, left it in the spring of "
        "1988; she took the barometer, the cat and a box of letters that had never been sent. ")
CASES = {
    "edit": (f"Repeat this file and rename the class Basket to Cart. Answer with the whole file and nothing else.\n"
             f"```python\n{SOURCE}```", 1100, 0),
    "quote": (f"Repeat this text word for word, three times:\n{TEXT}", 400, 0),
    "prose": ("Write a long story about a fisherman who finds a map in a bottle.", 300, 0),
    "sampled": ("Write a long story about a fisherman who finds a map in a bottle.", 300, 0.8),
}
MODES = {"off": {"prompt_lookup": False}, "auto": {}, "on": {"prompt_lookup": True}}


def ask(daemon, session, case, mode):
    prompt, most, temperature = CASES[case]
    start = time.monotonic()
    answer = daemon.must("POST", "/v1/chat/completions", messages=[{"role": "user", "content": prompt}], session=session,
                         max_tokens=most, temperature=temperature, seed=7, return_token_ids=True, **MODES[mode])
    seconds = time.monotonic() - start
    return seconds, answer


def measure(daemon, case, modes, rounds):
    sessions = {mode: daemon.must("POST", "/v1/sessions")["id"] for mode in modes}
    seconds = {mode: [] for mode in modes}
    counts, said = {}, {}
    for number in range(rounds + 1):
        for mode in modes if number % 2 else modes[::-1]:
            took, answer = ask(daemon, sessions[mode], case, mode)
            if number == 0:
                said.setdefault(case, answer["choices"][0]["token_ids"])
            else:
                seconds[mode].append(took)  # the first round computes the prompts
            if answer["choices"][0]["token_ids"] != said[case]:
                raise SystemExit(f"{case}: the answer depends on prompt lookup")
            counts[mode] = answer["usage"]["completion_tokens_details"]
    tokens = len(said[case])
    plain = statistics.median(seconds[modes[0]])
    for mode in modes:
        median = statistics.median(seconds[mode])
        right = counts[mode]["accepted_prediction_tokens"]
        drafted = right + counts[mode]["rejected_prediction_tokens"]
        print(f"{case:8} {mode:5} {tokens:5} tokens {median * 1000:8.0f} ms {tokens / median:7.1f} tok/s   x {plain / median:4.2f}   "
              f"{drafted:5} drafted {right:5} accepted", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvernd", default=ROOT / "build/release/daemon/kvernd")
    parser.add_argument("--model", default=ROOT / "models/smollm2.gguf")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--modes", default="off,auto,on", help="the first is what the others are compared with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvern-bench-") as folder:
        with kvernd(arguments, folder, "--threads", arguments.threads) as daemon:
            for case in arguments.only or CASES:
                measure(daemon, case, arguments.modes.split(","), arguments.rounds)


if __name__ == "__main__":
    main()
