"""Offsets as runs: which messages of a partition a marker is about, in a few bytes. Pure.

`(offset, [3, 2, 1])` is offset, offset+1, offset+2, then two left out, then one. `[]` is the offset alone.
"""

from collections.abc import Iterable, Iterator, Sequence


def pack(offsets: Sequence[int]) -> tuple[int, list[int]]:
    """The first of the ascending offsets, and their runs."""
    first = expected = offsets[0]
    if offsets[-1] - first == len(offsets) - 1:
        return first, [len(offsets)] if len(offsets) > 1 else []
    runs: list[int] = []
    length = 0
    for offset in offsets:
        if offset == expected:
            length += 1
        else:
            runs += (length, offset - expected)
            length = 1
        expected = offset + 1
    return first, [*runs, length] if runs or length > 1 else []


def ranges(offset: int, runs: Sequence[int]) -> Iterator[range]:
    """The runs as ranges of offsets."""
    if not runs:
        yield range(offset, offset + 1)
    for place, length in enumerate(runs):
        if place % 2 == 0:
            yield range(offset, offset + length)
        offset += length


def unpack(offset: int, runs: Sequence[int]) -> list[int]:
    """All offsets."""
    return [each for run in ranges(offset, runs) for each in run]


def pack_ranges(sorted_ranges: Iterable[range]) -> tuple[int, list[int]]:
    """The first offset of the ascending ranges, none of which touch, and their runs."""
    first, end, runs = 0, None, list[int]()
    for each in sorted_ranges:
        if end is None:
            first = each.start
        else:
            runs.append(each.start - end)
        runs.append(len(each))
        end = each.stop
    return first, [] if runs == [1] else runs


def split(whole: list[range], named: list[range]) -> tuple[list[range], list[range]]:
    """What of the ascending ranges is named, and what is not. Neither kind touch among themselves, before and after."""
    if whole == named:
        return whole, []
    inside: list[range] = []
    outside: list[range] = []
    place = 0
    for each in whole:
        at = each.start
        while place < len(named) and named[place].stop <= at:
            place += 1
        upto = place
        while upto < len(named) and named[upto].start < each.stop:
            start, stop = max(named[upto].start, at), min(named[upto].stop, each.stop)
            if at < start:
                outside.append(range(at, start))
            inside.append(range(start, stop))
            at = stop
            upto += 1
        if at < each.stop:
            outside.append(range(at, each.stop))
    return inside, outside


def merged(some: Iterable[range]) -> list[range]:
    """The same offsets as ascending ranges that do not touch."""
    whole: list[range] = []
    for each in sorted(some, key=lambda each: each.start):
        if whole and each.start <= whole[-1].stop:
            whole[-1] = range(whole[-1].start, max(whole[-1].stop, each.stop))
        else:
            whole.append(each)
    return whole
