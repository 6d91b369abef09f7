"""From runs to figures, ratios and the page of the documentation; pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks.peers.contenders import OURS, WINDROW, Contender
from benchmarks.peers.floor import FLOOR
from benchmarks.peers.loads import LOADS, Run

MORE_IS_BETTER: Final = frozenset({"records_per_s", "messages_per_s"})
BARS: Final = (("backlog", "records_per_s", 4.0), ("1k", "p50_ms", 1.0), ("1k", "p99_ms", 1.0))
"""One of ours ÷ the best peer: at least so much of a rate, at most so much of a latency."""
_UNITS: Final = {
    "records_per_s": "records/s",
    "messages_per_s": "messages/s",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of all rounds, and how far they lie apart."""

    median: float
    lowest: float
    highest: float
    complete: bool
    """Whether, in every round, all had come when the time was over."""

    def __str__(self) -> str:
        least = "" if self.complete else "*"
        return f"{_short(self.median)}{least} ({_short(self.lowest)} to {_short(self.highest)})"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One of ours ÷ the best peer."""

    load: str
    figure: str
    ours: str
    best_peer: str
    ratio: float
    bar: float | None

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.figure in MORE_IS_BETTER else self.ratio <= self.bar


Figures = Mapping[str, Mapping[str, Mapping[str, Figure]]]
"""By load, figure and contender."""


def figures(runs: Iterable[Run]) -> Figures:
    found: dict[str, dict[str, dict[str, list[tuple[float, bool]]]]] = {}
    for run in runs:
        for key, value in run.figures.items():
            of_load = found.setdefault(run.load, {}).setdefault(key, {})
            of_load.setdefault(run.contender, []).append((value, run.complete))
    return {
        load: {key: {who: _figure(values) for who, values in whose.items()} for key, whose in keys.items()}
        for load, keys in found.items()
    }


def _figure(values: Sequence[tuple[float, bool]]) -> Figure:
    numbers = [number for number, _ in values]
    return Figure(median(numbers), min(numbers), max(numbers), all(complete for _, complete in values))


def ratios(measured: Figures) -> Iterator[Ratio]:
    """Of every figure that one of ours and a peer have."""
    bars = {(load, key): bar for load, key, bar in BARS}
    for load, keys in measured.items():
        for key, whose in keys.items():
            peers = {who: figure.median for who, figure in whose.items() if who not in (*OURS, FLOOR)}
            if not peers:
                continue
            best = (max if key in MORE_IS_BETTER else min)(peers, key=peers.__getitem__)
            for ours in OURS:
                if ours in whose:
                    yield Ratio(load, key, ours, best, whose[ours].median / peers[best], bars.get((load, key)))


def table(measured: Figures) -> str:
    """For a terminal."""
    rows = [["load", "figure", "contender", "median (lowest to highest)", "windrow ÷"]]
    ours = {(load, key): whose.get(WINDROW) for load, keys in measured.items() for key, whose in keys.items()}
    for load, keys in measured.items():
        for key, whose in keys.items():
            for who, figure in whose.items():
                own = ours[load, key]
                ratio = "" if own is None or who == WINDROW else f"{own.median / figure.median:.2f}"
                rows.append([load, _UNITS[key], who, str(figure), ratio])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def verdicts(found: Iterable[Ratio]) -> Iterator[str]:
    """A line for each bar."""
    for each in found:
        if each.bar is not None:
            sign = "≥" if each.figure in MORE_IS_BETTER else "≤"
            yield (
                f"{each.load}, {_UNITS[each.figure]}: {each.ours} ÷ {each.best_peer} = {each.ratio:.2f} "
                f"(bar {sign} {each.bar:g}: {'met' if each.met else 'NOT met'})"
            )


def page(result: Mapping[str, Any], measured: Figures, contenders: Sequence[Contender], picture: str) -> str:
    """The page of the documentation."""
    parts = [_HEAD, f"![Medians of all loads]({picture})\n", *_sections(measured, contenders)]
    parts += ["## windrow ÷ the best peer\n", *(f"- {line}" for line in verdicts(ratios(measured))), ""]
    parts += [
        _soundness(result["runs"]),
        "## Contenders\n",
        "| contender | promises | measured with |",
        "|---|---|---|",
    ]
    parts += [f"| {each.name} | {each.promise} | {each.settings} |" for each in contenders]
    parts += [_METHOD.format(**result["size"], partitions=result["partitions"])]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    parts += [f"Versions: {versions}. {result['machine']}.\n"]
    return "\n".join(parts)


def _sections(measured: Figures, contenders: Sequence[Contender]) -> Iterator[str]:
    titles = {load.name: load.title for load in LOADS} | {
        "queue": "queues: messages that one consumer takes one by one"
    }
    order = [each.name for each in contenders]
    for load, keys in measured.items():
        yield f"## {titles[load][0].upper()}{titles[load][1:]}\n"
        yield f"| | {' | '.join(_UNITS[key] for key in keys)} |"
        yield f"|---|{'---:|' * len(keys)}"
        names = dict.fromkeys(who for whose in keys.values() for who in whose)
        for who in sorted(names, key=lambda who: order.index(who) if who in order else len(order)):
            yield f"| {who} | {' | '.join(str(keys[key][who]) for key in keys)} |"
        yield ""


def _soundness(runs: Sequence[Mapping[str, Any]]) -> str:
    names = dict.fromkeys(run["contender"] for run in runs)
    rows = ["## Lost, duplicated, reordered\n", "| | lost | duplicated | reordered |", "|---|---:|---:|---:|"]
    for name in names:
        own = [run for run in runs if run["contender"] == name]
        counts = (sum(run[fault] for run in own) for fault in ("lost", "duplicated", "reordered"))
        rows.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join([*rows, "\nNobody was killed here: what each promises when that happens stands below.\n"])


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


_HEAD: Final = """# windrow and its peers

Written by `make bench-peers`. Medians of all rounds, with the lowest and the highest. A star means that the contender
was slower than the load: its rate is one over the time that it had, its latencies are at least what is given. The
picture has a logarithmic scale.
"""
_METHOD: Final = """
## How

All on one machine, in one run: an embedded PostgreSQL (`synchronous_commit = on`; 512 MB of shared buffers), an
embedded broker, and the contenders one after the other, in one order and then in the reverse. Every producer waits for
all replicas (`acks=all`). Each run has a fresh outbox in the contender's own layout and a fresh topic of {partitions}
partitions, begins when a first record has come through, and is judged by the same consumer, which reads committed.

- Backlogs: {backlog:,} records of 200 bytes, 2 headers and 10,000 keys, in one transaction; from its commit until the
  consumer has all, or for {patience:.0f} s. Of mixed sizes: {mixed:,}. With a transaction held open: after {traffic:,}
  others that were relayed meanwhile. Before all, each contender relays {unmeasured:,} that do not count.
- Live: {live:.0f} s after {warm_up:.0f} s of warming up, from the return of a row's commit until the consumer has the
  record. At 10,000/s the writers alone do not wait for the disk. windrow is there once more, dispatched: the writers'
  process sends each record right after its commit. In backlogs nobody would. Before all, each contender has
  {unmeasured_live:.0f} s of 1,000/s that do not count.
- "transactions alone" is nobody's relay: records from memory, published in transactions with a position, as soon as
  they are due and the transaction before is over, while the writers write beside it. No relay that makes a transaction
  of what it finds, to deliver exactly once, has a lower p50 on this machine. One that makes fewer, since it has to look
  for records, may have a lower p99.
- Rounds: {rounds} of the backlog, of 1,000/s and of queues, {more_rounds} of the others, from which the untuned
  variants are left out.
- Debezium runs in Kafka Connect, standalone; its worker stays up for the whole run, and compiles its code, as the
  broker and Spark do. The baselines named after goharvest and tomorrow-one are written in this repository, in Python,
  after the sources of those projects: the same statements, limits and waits. They were not compared with the originals.
- Queues: {queue:,} messages of 200 bytes; see `messages_per_s` of [Benchmarks](benchmarks.md).
"""
