"""The old place: brokers that write and seal its logs, and the roll-up between.

In this room: brokers that own the old logs, and brokers that take themselves for the owner. Both
behave alike: a broker writes without asking another one.
Next door: the new place and the controller (move_new.py).
"""

from collections.abc import Iterator

from tests.model.move_state import (
    EARLIER,
    SEAL,
    THIS,
    Bounds,
    Lane,
    Rules,
    State,
    Writer,
    takes,
    with_lane,
)

Step = tuple[str, State]


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    for n, lane in enumerate(state.lanes):
        for m, writer in enumerate(lane.writers):
            for label, after, memory in _of_writer(state, lane, writer, rules, bounds):
                writers = (*lane.writers[:m], memory, *lane.writers[m + 1 :])
                named = f"{'ABC'[m]}, old log {n}: {label}"
                yield named, with_lane(state, n, after._replace(writers=writers))
        if bounds.roll_up and lane.rolled < len(lane.old):
            after = lane._replace(rolled=len(lane.old))
            yield f"old log {n} is rolled up to {len(lane.old)}", with_lane(state, n, after)
        yield from _late_reports(state, n, lane)


def _of_writer(
    state: State, lane: Lane, writer: Writer, rules: Rules, bounds: Bounds
) -> Iterator[tuple[str, Lane, Writer]]:
    known = lane.old[: writer.known]
    is_sealed = SEAL in known and not writer.forgot
    if not is_sealed and not writer.stopped:
        for record in bounds.records:
            if len(known) < bounds.longest and takes(known, record, bounds, unknown_begin=False):
                yield _put(lane, writer, record, rules)
    if state.phase in ("sealing", "moved"):
        yield from _ends(lane, writer, is_sealed, rules)
    if writer.report >= 0:
        label = f"reports: sealed, ends at {writer.report}"
        yield label, lane._replace(sealed=(THIS, writer.report)), writer._replace(report=-1)
    fresh = _opened(lane, rules)
    if fresh != writer:
        yield "opens the log anew, whatever it was about to do", lane, fresh
    if bounds.expiry and is_sealed and not rules.seal_survives_expiry:
        yield "forgets silent producers, the sealer among them", lane, writer._replace(forgot=True)


def _opened(lane: Lane, rules: Rules) -> Writer:
    """What the bucket says: the manifest with its producers, and the tail after it."""
    forgot = not rules.seal_survives_roll_up and SEAL in lane.old[: lane.rolled]
    return Writer(known=len(lane.old), forgot=forgot)


def _put(lane: Lane, writer: Writer, batch: int, rules: Rules) -> tuple[str, Lane, Writer]:
    """Create-if-absent at the end that the writer knows; acknowledged if it is created."""
    name = "the seal" if batch == SEAL else f"record {batch}"
    if writer.known < len(lane.old):
        return f"PUT of {name} at {writer.known}: taken, opens anew", lane, _opened(lane, rules)
    after = lane._replace(old=(*lane.old, batch))
    memory = writer._replace(known=writer.known + 1)
    if batch == SEAL and rules.end_after_commit:
        memory = memory._replace(report=memory.known)
    return f"PUT of {name} at {writer.known}: created, acknowledged", after, memory


def _ends(
    lane: Lane, writer: Writer, is_sealed: bool, rules: Rules
) -> Iterator[tuple[str, Lane, Writer]]:
    """The descriptor says "sealing": the writer seals the lane and reports where it ends."""
    if not rules.sealed:
        if not writer.stopped:
            memory = writer._replace(stopped=True, report=writer.known)
            yield "takes no more", lane, memory
        return
    if not rules.end_after_commit and writer.report < 0 and not is_sealed:
        memory = writer._replace(report=writer.known + 1)
        yield "sends the seal and notes its end", lane, memory
    if not is_sealed:
        if not writer.forgot:  # else the writer would seal again and again
            yield _put(lane, writer, SEAL, rules)
    elif writer.report < 0 and lane.sealed != (THIS, writer.known):
        yield "finds the lane sealed", lane, writer._replace(report=writer.known)


def _late_reports(state: State, n: int, lane: Lane) -> Iterator[Step]:
    for what in lane.late:
        rest = lane._replace(late=tuple(one for one in lane.late if one != what))
        if what == "sealed":
            after = rest._replace(sealed=(EARLIER, 0))
        else:
            after = rest._replace(done=EARLIER)
        yield f"a report of an earlier move arrives for log {n}: {what}", with_lane(state, n, after)
