#!/usr/bin/env python3
"""Puts the same load on strata's server and llama.cpp's, in turns, with `strata bench serve` as the client.

    bench/load.py closed MODEL.gguf --llama LLAMA_CPP/build/bin --rounds 3 --out closed.json
    bench/load.py trace MODEL.gguf --llama DIR --trace azure-llm-2023-conv.csv --out trace.json
    bench/load.py shared MODEL.gguf --llama DIR --out shared.json
    bench/load.py static MODEL.gguf --trace azure-llm-2023-conv.csv --out static.json
    bench/load.py long MODEL.gguf --llama DIR --out long.json
    bench/load.py thousand MODEL.gguf --out thousand.json

closed    32 clients, each sends its next request when one has ended: 256 tokens in, 64 out
trace     the times and lengths (divided by 4) of a trace; the highest arrival rate at which 99 % of the requests have their
          first text within 2 s and no gap above 200 ms, found by bisection for each system
shared    100 requests with the same 2,000 tokens first, 8 clients; and the time to the first text cold and with them cached
static    mixed lengths (the trace's / 4), 64 clients, 32 at once: continuous batches, padded static ones, and static ones
          with ended rows dropped; strata alone
long      a prompt of 7,000 tokens beside a running stream: the stream's gaps before and meanwhile, the prompt's first token
          beside the stream and alone
thousand  1,000 clients at once against a queue of 256, twice; statuses, the time of a refusal, memory; strata alone

Every run has a server of its own. The JSON (stdout, or --out) has every run's summary; the line on stderr the medians.
"""
import csv
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import sys
import time
import urllib.request

import figures
from load_systems import Llama, Strata, memory_mib
from stream_client import Streaming, words

GOOD_SHARE = 0.99
LENGTH_SCALE = 4


class Row:
    """One row of the table: its systems, and what a round of one of them gives."""

    def __init__(self, options):
        self.options = options

    def systems(self):
        llama = [Llama(self.options)] if self.options.llama else []
        return [Strata("strata", self.options), *llama]

    def load(self, url, *arguments):
        """The summary of one load."""
        name = pathlib.Path(self.options.model).stem
        report = figures.output_json([self.options.strata, "bench", "serve", url, "--model", name, "--json", "--quiet", *arguments])
        return {**report["summary"], **({"engine": report["engine"]} if "engine" in report else {})}

    def requests(self, usual):
        return self.options.requests or usual


class Closed(Row):
    HEADLINE = "output_tokens_per_second"

    def round(self, system):
        clients = 32
        with system.running(512, clients) as (url, _):
            self.load(url, "--clients", clients, "--requests", clients, "--prompt", 256, "--output", 4, "--seed", 99)  # warms up
            return self.load(url, "--clients", clients, "--requests", self.requests(128), "--prompt", 256, "--output", 64)


class Trace(Row):
    HEADLINE = "rate"

    def __init__(self, options):
        super().__init__(options)
        self.count = self.requests(200)
        self.native_rate = native_rate(options.trace, self.count)

    def round(self, system):
        """Bisects the factor by which time is sped up, between one that keeps the limits and one that does not."""
        tried = {}

        def keeps(scale):
            with system.running(2048, 32) as (url, _):
                # Before the load, what it needs to know of its own steps.
                self.load(url, "--clients", 4, "--requests", 8, "--prompt", 256, "--output", 16, "--seed", 99)
                summary = self.load(url, "--trace", self.options.trace, "--requests", self.count, "--time-scale", scale,
                                    "--length-scale", LENGTH_SCALE, "--most-prompt", 1500, "--most-output", 400,
                                    "--ttft-limit", 2, "--gap-limit", 0.2)
            tried[scale] = {**summary, "good_share": summary["good"] / summary["calls"]}
            return tried[scale]["good_share"] >= GOOD_SHARE

        low, high = 0.0, self.options.first_rate / self.native_rate
        for _ in range(self.options.bisections):
            middle = high if low == 0 and high not in tried else (low * high) ** 0.5 if low else high / 2
            if keeps(middle):
                low = middle
                if high <= middle:
                    high = middle * 2
            else:
                high = middle
        return {"rate": low * self.native_rate, "tried": [{"rate": scale * self.native_rate, **tried[scale]} for scale in sorted(tried)]}


class Shared(Row):
    HEADLINE = "requests_per_second"

    def round(self, system):
        shared, prompt = 2000, 2032
        with system.running(2560, 8) as (url, _):
            cold = [self.load(url, "--clients", 1, "--requests", 1, "--prompt", prompt, "--output", 2, "--seed", 900 + i)["ttft_s"]["p50"]
                    for i in range(3)]
            same = ("--prompt", prompt, "--shared-prompt", shared)
            self.load(url, "--clients", 1, "--requests", 1, *same, "--output", 2)
            hot = self.load(url, "--clients", 1, "--requests", 5, *same, "--output", 2)["ttft_s"]["p50"]
            summary = self.load(url, "--clients", 8, "--requests", self.requests(100), *same, "--output", 32)
        return {**summary, "cold_ttft_s": statistics.median(cold), "hot_ttft_s": hot, "hot_of_cold": hot / statistics.median(cold)}


class Static(Row):
    HEADLINE = "output_tokens_per_second"

    def systems(self):
        return [Strata("continuous", self.options), Strata("static, padded", self.options, "--batching", "static"),
                Strata("static, rows dropped", self.options, "--batching", "static-drop")]

    def round(self, system):
        lengths = ("--trace", self.options.trace, "--length-scale", LENGTH_SCALE, "--most-prompt", 700, "--most-output", 250)
        with system.running(1024, 32) as (url, _):
            return self.load(url, *lengths, "--clients", 64, "--requests", self.requests(192))


class Long(Row):
    HEADLINE = "largest_gap_of_median"

    def round(self, system):
        size, name = self.options.prompt, pathlib.Path(self.options.model).stem
        with system.running(size + 1000, 2) as (url, _):
            Streaming(url, name, words(600, 1), 30).wait()  # warms up: the costs of steps are known
            alone = Streaming(url, name, words(size, 2), 1).wait()
            stream = Streaming(url, name, words(20, 3), 4000)
            stream.wait_for(60)
            begin = time.monotonic()
            long = Streaming(url, name, words(size, 4), 1).wait()
            end = time.monotonic()
            before, meanwhile = statistics.median(stream.gaps(until=begin)), max(stream.gaps(begin, end))
        return {"prompt_tokens": long.prompt_tokens, "median_gap_before_s": before, "largest_gap_s": meanwhile,
                "largest_gap_of_median": meanwhile / before, "ttft_alone_s": alone.ttft_s, "ttft_beside_s": long.ttft_s,
                "ttft_of_alone": long.ttft_s / alone.ttft_s}


class Thousand(Row):
    HEADLINE = "completed"

    def systems(self):
        return [Strata("strata", self.options, "--queue", 256)]

    def round(self, system):
        clients = self.requests(1000)
        burst = ("--clients", clients, "--requests", clients, "--prompt", 16, "--output", 16)
        with system.running(512, 64) as (url, pid):
            self.load(url, *burst)
            before = memory_mib(pid)
            summary = self.load(url, *burst)
            return {**summary, "refusal_p99_at_most_s": refusal_bound(url, 0.99), "memory_mib": [before, memory_mib(pid)]}


ROWS = {"closed": Closed, "trace": Trace, "shared": Shared, "static": Static, "long": Long, "thousand": Thousand}


def native_rate(path, count):
    """Requests a second of the trace's first `count` rows."""
    with open(path, encoding="utf-8", newline="") as file:
        times = [datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]) for row, _ in zip(csv.DictReader(file), range(count))]
    return (len(times) - 1) / (times[-1] - times[0]).total_seconds()


def refusal_bound(url, share):
    """The smallest bound of the server's histogram of refusals that `share` of them keep; None: there were none, or more."""
    text = urllib.request.urlopen(url + "/metrics", timeout=60).read().decode()
    buckets = [(float(bound), int(count)) for bound, count in re.findall(r'refusal_seconds_bucket{le="([\d.e-]+)"} (\d+)', text)]
    total = int(re.search(r"refusal_seconds_count (\d+)", text)[1])
    return next((bound for bound, count in buckets if total and count >= share * total), None)


def main():
    parser = figures.parser(__doc__)
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("model", metavar="MODEL.gguf")
    figures.add_strata(parser)
    parser.add_argument("--llama", type=pathlib.Path, help="folder with llama-server; without it strata runs alone")
    parser.add_argument("--slots", type=int, default=32, help="llama-server's --parallel (%(default)s)")
    parser.add_argument("--trace", type=pathlib.Path, help="a CSV file with TIMESTAMP,ContextTokens,GeneratedTokens")
    parser.add_argument("--prompt", type=int, default=7000, help="long: words of the prompt (%(default)s)")
    parser.add_argument("--kv-memory", default="2GiB", help="strata's pool (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="in turns; medians count (%(default)s)")
    parser.add_argument("--requests", type=int, help="of a run, instead of the row's own number")
    parser.add_argument("--first-rate", type=float, default=1.0, help="trace: requests a second to begin with (%(default)s)")
    parser.add_argument("--bisections", type=int, default=7, help="trace: runs of a system in a round (%(default)s)")
    parser.add_argument("--out", type=pathlib.Path, help="the JSON's file; default: stdout")
    options = parser.parse_args()
    if options.row in ("trace", "static") and not options.trace:
        parser.error(f"{options.row} needs --trace")
    row = ROWS[options.row](options)
    rounds = []
    load_average = os.getloadavg()[0]
    for number in range(options.rounds):
        systems = row.systems()
        rounds.append({system.name: row.round(system) for system in (systems if number % 2 == 0 else systems[::-1])})
    medians = {name: statistics.median(each[name][row.HEADLINE] for each in rounds) for name in rounds[0]}
    report = {"row": options.row, "model": pathlib.Path(options.model).stem, "machine": platform.processor() or platform.machine(),
              "cores": os.cpu_count(), "load_average_before": load_average, "headline": row.HEADLINE, "medians": medians, "rounds": rounds}
    text = json.dumps(report, indent=1)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    print(f"{options.row}: {row.HEADLINE}: " + ", ".join(f"{name} {figures.figure(value)}" for name, value in medians.items()), file=sys.stderr)


if __name__ == "__main__":
    main()
