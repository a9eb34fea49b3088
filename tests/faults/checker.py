"""What must not have happened: a pure judgement of a history.

In this room: one function per promise. Each yields findings; none means the promise was kept.
Next door: the words (history.py), the planted faults each function must find
(tests/unit/faults/test_checker.py).
Never here: clients, brokers, clocks.

The checker reads an unknown outcome in the system's favour: such a record may be in the log or not,
such a commit may take effect at any later time.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from tests.faults.history import FAILED, NOTHING, OK, Commit, Fetched, History, Send


class Finding(NamedTuple):
    """One broken promise. `send` is the record it is about, where it is about one."""

    kind: str
    text: str
    send: Send | None = None


Findings = Iterator[Finding]


def check(history: History) -> list[Finding]:
    """All broken promises; empty when every promise was kept."""
    return [finding for judge in JUDGES for finding in judge(history)]


# Records.


def lost(history: History) -> Findings:
    """An acknowledged record is in the log, at the offset that the broker answered.

    A broker may answer without an offset only to the retry of an idempotent producer: the record
    is stored, and its offset is not known.
    """
    at = {(one.partition, one.offset): one.value for one in history.found}
    there = {(one.partition, one.value) for one in history.found}
    for send in history.acknowledged():
        if (send.partition, send.value) not in there:
            where = f"{send.partition}/{send.offset}"
            yield Finding("lost", f"{send.value!r}, acknowledged at {where}, is nowhere", send)
        elif send.offset < 0 and send.producer in history.idempotent:
            continue
        elif at.get((send.partition, send.offset)) != send.value:
            yield Finding(
                "wrong offset", f"{send.value!r} is not at {send.partition}/{send.offset}", send
            )


def duplicates(history: History) -> Findings:
    """What an idempotent producer sent once is there once."""
    times = Counter((one.partition, one.value) for one in history.found)
    for send in history.sends:
        count = times[send.partition, send.value]
        if count > 1 and send.producer in history.idempotent:
            yield Finding("duplicate", f"{send.value!r} is there {count} times", send)


def reordered(history: History) -> Findings:
    """An idempotent producer's records are in the order it sent them, partition by partition.

    Other producers may have many requests in flight, and their retries may change the order.
    """
    by_value = {(send.partition, send.value): send for send in history.sends}
    highest: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    seen: set[tuple[int, str]] = set()
    for one in sorted(history.found, key=lambda one: (one.partition, one.offset)):
        send = by_value.get((one.partition, one.value))
        if send is None or send.producer not in history.idempotent:
            continue
        if (one.partition, one.value) in seen:
            continue  # `duplicates` judges repetitions
        seen.add((one.partition, one.value))
        lane = send.producer, one.partition
        if send.number < highest[lane]:
            text = f"{one.partition}/{one.offset} holds {one.value!r} after {highest[lane]}"
            yield Finding("reordered", text, send)
        highest[lane] = max(highest[lane], send.number)


def offset_reuse(history: History) -> Findings:
    """An offset names one record, whichever client or broker names it, and whenever."""
    known: dict[tuple[int, int], str] = {}
    sayings = [
        *((one.partition, one.offset, one.value, "in the log") for one in history.found),
        *(
            (send.partition, send.offset, send.value, f"acknowledged to {send.producer}")
            for send in history.acknowledged()
            if send.offset >= 0
        ),
        *((one.partition, one.offset, one.value, f"read by {one.reader}") for one in history.polls),
    ]
    for partition, offset, value, how in sayings:
        first = known.setdefault((partition, offset), value)
        if first != value:
            text = f"{partition}/{offset} is {first!r}, and {value!r} as {how}"
            yield Finding("offset reuse", text)


def gaps(history: History) -> Findings:
    """The log is dense from 0, and a reader that did not seek gets one offset after the other."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for one in history.found:
        offsets[one.partition].append(one.offset)
    for partition, seen in sorted(offsets.items()):
        # A topic that had nothing yet when it moved begins after what the move took.
        for expected, offset in enumerate(seen, seen[0] if history.moves else 0):
            if offset != expected:
                yield Finding("gap", f"partition {partition} has {offset} where {expected} belongs")
                break
    empty = {(one.partition, one.offset) for one in history.found if one.value == NOTHING}
    last: dict[tuple[str, int, int], int] = {}
    for poll in history.polls:
        lane = poll.reader, poll.stretch, poll.partition
        before = last.get(lane)
        while before is not None and (poll.partition, before + 1) in empty:
            before += 1
        if before is not None and poll.offset != before + 1:
            where = f"{poll.reader} got {poll.partition}/{poll.offset}"
            yield Finding("gap", f"{where} after {before}")
        last[lane] = poll.offset


def unsent(history: History) -> Findings:
    """Only what was sent is there, nothing that surely failed, and one empty offset per move."""
    sent = {(send.partition, send.value): send for send in history.sends}
    taken = Counter(one.partition for one in history.found if one.value == NOTHING)
    for partition, count in taken.items():
        if count > history.moves:
            text = f"{count} offsets of partition {partition} hold nothing"
            yield Finding("unsent", f"{text}, after {history.moves} moves")
    for one in history.found:
        if one.value == NOTHING:
            continue
        send = sent.get((one.partition, one.value))
        if send is None:
            where = f"{one.partition}/{one.offset}"
            yield Finding(
                "unsent", f"{where} holds {one.value[:60]!r}, which no producer sent there"
            )
        elif send.outcome == FAILED:
            yield Finding("unsent", f"{one.value!r} failed, and is there", send)
    for poll in history.polls:
        if (poll.partition, poll.value) not in sent:
            yield Finding(
                "unsent", f"{poll.reader} read {poll.value[:60]!r}, which no producer sent"
            )


# Watermarks and commits.


def watermarks(history: History) -> Findings:
    """The end of a partition never moves back, and never lies before what was acknowledged."""
    for partition in range(history.partitions):
        seen = [one for one in history.watermarks if one.partition == partition]
        ended = sorted(
            [(one.ended_s, one.high, f"{one.broker} said {one.high}") for one in seen]
            + [
                (send.ended_s, send.offset + 1, f"{send.offset} was acknowledged")
                for send in history.acknowledged()
                if send.partition == partition
            ]
        )
        times = [row[0] for row in ended]
        highest = list(accumulate(ended, _higher))
        for one in seen:
            before = bisect_left(times, one.begun_s) - 1
            if before >= 0 and one.high < highest[before][1]:
                text = f"partition {partition}: {one.broker} said {one.high} after {{}}, {{:.2f}} s"
                told = text.format(highest[before][2], one.begun_s - highest[before][0])
                yield Finding("watermark back", f"{told} later")


def _higher(one: tuple[float, int, str], two: tuple[float, int, str]) -> tuple[float, int, str]:
    return two if two[1] > one[1] else one


def commits(history: History) -> Findings:
    """A fetched offset is one that was committed and not surely replaced by then."""
    by_place: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    for commit in history.commits:
        by_place[commit.group, commit.partition].append(commit)
    for fetched in history.fetched:
        told = by_place[fetched.group, fetched.partition]
        if not _explained(fetched, told):
            newest = max(
                (one for one in told if one.outcome == OK and one.ended_s < fetched.begun_s),
                key=lambda one: one.ended_s,
                default=None,
            )
            place = f"{fetched.group} {fetched.partition}"
            after = f"{newest.offset} was committed" if newest else "nothing was committed"
            yield Finding("commit undone", f"{place}: {fetched.offset} fetched after {after}")


def _explained(fetched: Fetched, told: Sequence[Commit]) -> bool:
    before = [one for one in told if one.outcome == OK and one.ended_s < fetched.begun_s]
    if fetched.offset < 0:
        return not before
    # A commit is out if another one began after it had ended, and ended before the fetch.
    latest_begin = max((one.begun_s for one in before), default=-1.0)
    return any(
        one.offset == fetched.offset
        and one.begun_s <= fetched.ended_s
        and (one.outcome != OK or one.ended_s >= latest_begin)
        for one in told
        if one.outcome != FAILED
    )


# Owners and objects.


def owners(history: History) -> Findings:
    """Epochs rise along a log, and one broker alone writes in an epoch."""
    rows = sorted(history.found, key=lambda one: (one.partition, one.offset))
    for one, two in pairwise(rows):
        if one.partition == two.partition and two.epoch < one.epoch:
            where = f"{two.partition}/{two.offset}"
            text = f"{where} was written in epoch {two.epoch} after epoch {one.epoch}"
            yield Finding("two owners", text)
    by_epoch: dict[tuple[str, int], str] = {}
    for put in history.stored:
        log, _, name = put.key.rpartition("/")
        if put.outcome != OK or not is_flush(name) or put.first_epoch < 0:
            continue
        if history.moves and "@" in log:
            continue  # topics may have moved in, and brought epochs from where they were
        for epoch in {put.first_epoch, put.last_epoch}:
            owner = by_epoch.setdefault((log, epoch), put.broker)
            if owner != put.broker:
                text = f"{log}: {owner} and {put.broker} both wrote in epoch {epoch}"
                yield Finding("two owners", text)


def is_flush(name: str) -> bool:
    """Whether an object is a member of a log's chain, not rewritten history."""
    return name.startswith("segment-") and name.endswith(".kfs") and name.count("-") == 1


def overwritten(history: History) -> Findings:
    """An object keeps its content from its creation until a broker deletes it."""
    removed: dict[str, list[float]] = defaultdict(list)
    for removal in history.removed:
        removed[removal.key].append(removal.begun_s)
    puts: dict[str, list[tuple[float, float, str, str]]] = defaultdict(list)
    possible: dict[str, set[str]] = defaultdict(set)
    for put in history.stored:
        if put.outcome != FAILED:
            possible[put.key].add(put.digest)
        if put.outcome == OK:
            puts[put.key].append((put.begun_s, put.ended_s, put.digest, put.broker))
    for key, created in puts.items():
        for one, two in pairwise(sorted(created)):
            deleted = any(one[0] <= at_s <= two[1] for at_s in removed[key])
            if one[2] != two[2] and not deleted:
                yield Finding("overwritten", f"{key}: of {one[3]}, then again of {two[3]}")
    listed = {one.key: one.digest for one in history.listed}
    for key, digest in listed.items():
        if key in possible and digest not in possible[key]:
            yield Finding("overwritten", f"{key} is not what any broker stored")
    for key in puts:
        if listed and key not in listed and not removed[key]:
            yield Finding("vanished", f"{key} was stored and never deleted, and is not there")


def troubles(history: History) -> Findings:
    """No worker was left stuck, and none saw an error that a default client must never see."""
    for trouble in history.troubles:
        yield Finding("trouble", f"{trouble.worker}: {trouble.what}")


JUDGES: Final[tuple[Callable[[History], Findings], ...]] = (
    lost,
    duplicates,
    reordered,
    offset_reuse,
    gaps,
    unsent,
    watermarks,
    commits,
    owners,
    overwritten,
    troubles,
)
