#!/usr/bin/env python3
"""What prompt lookup gains a running kvernd: the same requests with it and without, one after the other on one daemon.

    bench/speculation.py [--rounds 5] [--only edit] [--model models/smollm2.gguf]

`edit` repeats a source file of the prompt with a name changed, `quote` a text of the prompt; `prose` and `sampled` are
stories in which nothing repeats, greedy with a penalty for repetition and at temperature 1. Times are those of whole
answers, end to end, the prompt in the session's cache; answers must be equal, token for token. `auto` is what a request
gets that says nothing; `on` is "prompt_lookup": true.
"""
import argparse
import os
import pathlib
import statistics
import tempfile
import time

from servers import add_binaries, kvernd

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
EDITED = SOURCE.replace("Basket", "Cart").replace("basket", "cart")
EDIT = f"""The file basket.py:
```python
{SOURCE}```
The same file, with Basket renamed to Cart everywhere and nothing else changed:
```python
{EDITED[:EDITED.index("class Cart")]}"""
STORY = "This is the story of a fisherman who found a map in a bottle. It was a cold morning in March, and"
# Prompt, tokens, and how they are chosen. Small models tell greedy stories in circles unless repetition costs them.
CASES = {
    "edit": (EDIT, 800, {"temperature": 0, "stop": "```"}),
    "quote": (f"{TEXT}\n\nThe same text again, word for word:\n\nThe lighthouse", 200, {"temperature": 0}),
    "prose": (STORY, 300, {"temperature": 0, "repetition_penalty": 1.3, "repeat_last_n": -1, "ignore_eos": True}),
    "sampled": (STORY, 300, {"temperature": 1.0, "repetition_penalty": 1.1, "ignore_eos": True}),
}
MODES = {"off": {"prompt_lookup": False}, "auto": {}, "on": {"prompt_lookup": True}}


def ask(daemon, session, case, mode):
    """Seconds, token ids, text and usage of one answer."""
    prompt, most, options = CASES[case]
    start = time.monotonic()
    got = daemon.must("POST", "/v1/completions", prompt=prompt, session=session, max_tokens=most, seed=7,
                      return_token_ids=True, **options, **MODES[mode])
    seconds = time.monotonic() - start
    choice = got["choices"][0]
    return seconds, choice["token_ids"], choice["text"], got["usage"]


def measure(daemon, case, modes, rounds, show):
    sessions = {mode: daemon.must("POST", "/v1/sessions")["id"] for mode in modes}
    seconds = {mode: [] for mode in modes}
    counts, said = {}, None
    for number in range(rounds + 1):
        for mode in modes if number % 2 else modes[::-1]:
            took, tokens, text, usage = ask(daemon, sessions[mode], case, mode)
            if said is None and show:
                print(text)
            said = said or tokens
            if tokens != said:
                raise SystemExit(f"{case}: the answer depends on prompt lookup")
            if number > 0:  # the first round computes the prompts
                seconds[mode].append(took)
            counts[mode] = usage["completion_tokens_details"]
    plain = statistics.median(seconds[modes[0]])
    for mode in modes:
        median = statistics.median(seconds[mode])
        right = counts[mode]["accepted_prediction_tokens"]
        drafted = right + counts[mode]["rejected_prediction_tokens"]
        print(f"{case:8} {mode:5} {len(said):5} tokens {median * 1000:8.0f} ms {len(said) / median:7.1f} tok/s   "
              f"x {plain / median:5.3f}   {drafted:5} drafted {right:5} accepted", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_binaries(parser)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--modes", default="off,auto,on", help="the first is what the others are compared with")
    parser.add_argument("--show", action="store_true", help="print the answers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvern-bench-") as folder:
        with kvernd(arguments.kvernd, arguments.model, folder, "--threads", arguments.threads) as daemon:
            for case in arguments.only or CASES:
                measure(daemon, case, arguments.modes.split(","), arguments.rounds, arguments.show)


if __name__ == "__main__":
    main()
