"""One run: faults by a schedule while writers write, then rest, then the verdict on what came out."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Final

from windrow.errors import Interrupted, WindrowError
from windrow.lab.effects import newest_effect, read_effects
from windrow.lab.ground import Ground, end_writers, settle
from windrow.lab.history import keep
from windrow.lab.nemesis import Fault, Step, detection_of, outage_of
from windrow.lab.queues import read_handlings
from windrow.lab.report import RECOVERS_WITHIN, Incident, Run
from windrow.relay.events import LeaderAcquired

_SETTLED_WITHIN: Final = 120.0
_STAFFED_WITHIN: Final = 150.0
_LINGER: Final = 2.0
_REST: Final = 1.0
"""Seconds between a recovery and the next fault at least."""

Say = Callable[[str], None]


def torture(ground: Ground, steps: Sequence[Step], faults: Mapping[str, Fault], seconds: float, say: Say) -> Run:
    """Run the steps that begin within so many seconds, as soon as they are due and the last one is recovered from."""
    began = time.monotonic()
    incidents: list[Incident] = []
    for step in steps:
        ground.over.wait(max(_REST, began + step.at - time.monotonic()))
        if ground.over.is_set() or time.monotonic() - began > seconds:
            break
        incident = _happen(ground, step, [faults[name] for name in step.faults])
        incidents.append(incident)
        _see_recovered(ground, incident, time.monotonic() - began, say)
        # With one relay alone, or a cold one, the next fault would be another one.
        if not ground.comes_to(ground.staffed, _STAFFED_WITHIN) and not ground.over.is_set():
            incidents[-1] = replace(incident, undone=True)
    say("letting the writers end, and waiting for the last messages …")
    end_writers(ground)
    settle(ground, _SETTLED_WITHIN)
    time.sleep(_LINGER)  # for what must not come
    run = Run(
        seed=ground.load.seed,
        delivery=ground.settings.delivery,
        operations=ground.outcomes(),
        unlearnt=sum(each.outcome == "unknown" for each in ground.operations()),
        receipts=list(ground.receiver.receipts),
        incidents=incidents,
        effects=read_effects(ground.direct),
        published=_published(ground, say),
        shards=frozenset(ground.shards),
        terms=_terms(ground),
        queued=list(ground.queue.receiver.receipts) if ground.queue else [],
        handled=read_handlings(ground.folder),
    )
    keep(ground.folder / "judged" / "received.jsonl", (*run.receipts, *run.queued))
    keep(ground.folder / "judged" / "faults.jsonl", map(asdict, run.incidents))
    return run


def _published(ground: Ground, say: Say) -> int:
    """What the committed positions count; nothing where Kafka does not tell them, so that it shows in the verdict."""
    try:
        return ground.published()
    except Interrupted as error:
        say(f"the positions cannot be read: {error}")
        return 0


def _happen(ground: Ground, step: Step, faults: Sequence[Fault]) -> Incident:
    began, ground.struck_at = time.monotonic(), 0.0
    done = [fault.inject(ground) for fault in faults]
    ground.struck()
    ground.over.wait(max(step.hold, *(each.least_hold for each in faults)))
    done += [fault.heal(ground) for fault in reversed(faults)]
    healed = time.monotonic()
    return Incident(
        step.faults,
        began,
        healed,
        since=ground.struck_at if outage_of(faults) == "beginning" else healed,
        detection=detection_of(faults),
        holds_up=any(each.holds_up for each in faults),
        of_consumer=all(each.of_consumer for each in faults),
        # Of two at once, one may be in the other's way.
        undone=len(faults) == 1 and False in done and not ground.over.is_set(),
    )


def _see_recovered(ground: Ground, incident: Incident, at: float, say: Say) -> None:
    limit = incident.since + incident.detection + RECOVERS_WITHIN

    def newest() -> float:
        return _newest_effect(ground) if incident.of_consumer else ground.receiver.newest

    came = ground.comes_to(lambda: newest() >= incident.since, max(1.0, limit - time.monotonic()))
    state = f"recovered after {time.monotonic() - incident.healed:.1f} s" if came else "NOT RECOVERED"
    if incident.undone:
        state += ", but IT DID NOT COME ABOUT, or could not be healed"
    say(f"{at:6.0f} s  {incident.name}, {incident.healed - incident.began:.1f} s: {state}")


def _newest_effect(ground: Ground) -> float:
    with suppress(WindrowError):  # the database may be away
        return newest_effect(ground.direct)
    return 0.0


def _terms(ground: Ground) -> list[tuple[float, str]]:
    return sorted(
        (at, relay.name) for relay in ground.relays for at, event in relay.told if event == LeaderAcquired.__name__
    )
