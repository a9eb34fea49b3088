"""The new place: copiers, writers, the controller that ends a phase, and a reader that moves.

In this room: brokers that own the new logs, and brokers that take themselves for the owner. They
copy from the bucket into their own chain with an ordinary PUT. They take records once the
descriptor says so.
Next door: the old place (move_old.py).
"""

from collections.abc import Iterator

from tests.model.move_state import (
    NOTHING,
    SEAL,
    THIS,
    Bounds,
    Copier,
    Lane,
    Placed,
    Rules,
    State,
    end_of,
    takes,
    with_lane,
)

Step = tuple[str, State]
Move = tuple[str, Lane, Copier]


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    for n, lane in enumerate(state.lanes):
        for m, copier in enumerate(lane.copiers):
            for label, after, memory in _of_copier(state, lane, copier, rules, bounds):
                copiers = (*lane.copiers[:m], memory, *lane.copiers[m + 1 :])
                named = f"{'XYZ'[m]}, new log {n}: {label}"
                yield named, with_lane(state, n, after._replace(copiers=copiers))
    yield from _controller(state, rules)
    if bounds.reader:
        yield from _reader(state)


def _of_copier(
    state: State, lane: Lane, copier: Copier, rules: Rules, bounds: Bounds
) -> Iterator[Move]:
    if copier.stage == "idle":
        if lane.done != THIS:
            yield _look_first(lane, copier, rules)
    elif copier.stage == "looked":
        yield _look_second(lane, copier, rules)
    elif copier.stage == "copying":
        yield from _copy(lane, copier, rules)
    elif copier.stage == "done":
        after = lane._replace(done=THIS)
        yield "reports: done", after, copier._replace(stage="idle")
    if copier.waiting:
        yield _put(lane, copier, (), rules)
    if copier != Copier(known=len(lane.new)):
        yield "is replaced by one that opens the log", lane, Copier(known=len(lane.new))
    if state.phase == "moved":
        yield from _produce(lane, copier, rules, bounds)
        if not rules.one_descriptor:
            yield _put(
                lane, copier, ((end_of(lane.new[: copier.known] + copier.waiting), SEAL),), rules
            )


# Rule 16: first the sealed ends, then what is there.


def _reported_end(lane: Lane, rules: Rules) -> int:
    counts = lane.sealed is not None and (lane.sealed[0] == THIS or not rules.same_move)
    return lane.sealed[1] if counts and lane.sealed is not None else -1


def _look_first(lane: Lane, copier: Copier, rules: Rules) -> Move:
    if rules.ends_first:
        end = _reported_end(lane, rules)
        return f"reads the reports: end {end}", lane, copier._replace(stage="looked", end=end)
    seen = len(lane.old)
    label = f"looks at the old log: {seen} batches"
    return label, lane, copier._replace(stage="looked", seen=seen)


def _look_second(lane: Lane, copier: Copier, rules: Rules) -> Move:
    """The copier goes on where the lane ends, as far as it knows."""
    here = copier._replace(stage="copying", at=end_of(lane.new[: copier.known]))
    if rules.ends_first:
        seen = len(lane.old)
        return f"looks at the old log: {seen} batches", lane, here._replace(seen=seen)
    end = _reported_end(lane, rules)
    return f"reads the reports: end {end}", lane, here._replace(end=end)


# Rules 17 and 19: batch by batch, each at its offset.


def _copy(lane: Lane, copier: Copier, rules: Rules) -> Iterator[Move]:
    if copier.at < copier.seen:
        yield _adopt(lane, copier, rules)
    elif not copier.waiting:
        end = end_of(lane.new[: copier.known])
        if not rules.seal_keeps_its_offset and copier.end >= 0:
            end += 1  # the batch counts as copied
        is_whole = copier.end >= 0 and (end >= copier.end or not rules.end_compared)
        memory = Copier(copier.known, stage="done" if is_whole else "idle")
        yield f"has copied up to {copier.at}", lane, memory


def _adopt(lane: Lane, copier: Copier, rules: Rules) -> Move:
    """Add a batch to those that wait; what lay between the lane's end and the batch is gone."""
    offset, batch = copier.at, lane.old[copier.at]
    read = copier._replace(at=copier.at + 1)
    end = end_of(lane.new[: copier.known] + copier.waiting)
    if batch == SEAL:
        if not rules.seal_keeps_its_offset:
            return f"leaves out the seal at {offset}", lane, read
        if rules.seal_becomes_nothing:
            batch = NOTHING
    gap: tuple[Placed, ...] = tuple((at, NOTHING) for at in range(end, offset))
    label = f"copies {_name(batch)} of {offset}"
    return label, lane, read._replace(waiting=(*copier.waiting, *gap, (offset, batch)))


def _put(lane: Lane, copier: Copier, more: tuple[Placed, ...], rules: Rules) -> Move:
    """Commit all batches that wait as one segment."""
    segment = copier.waiting + more
    name = ", ".join(f"{_name(batch)} at {offset}" for offset, batch in segment)
    if copier.known == len(lane.new):
        new = lane.new + segment
        memory = copier._replace(known=len(new), waiting=())
        return f"PUT of {name}: created", lane._replace(new=new), memory
    memory = Copier(known=len(lane.new))
    if not rules.copies_from_the_end and copier.stage == "copying":
        memory = copier._replace(known=len(lane.new), waiting=())
        memory = memory._replace(at=max(copier.at, end_of(lane.new)))
    return f"PUT of {name}: taken, opens anew", lane, memory


# Rule 18: the new lane takes batches. It judges a producer's batch by what it holds.


def _produce(lane: Lane, copier: Copier, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    held = lane.new[: copier.known] + copier.waiting
    batches = tuple(batch for _, batch in held)
    if SEAL in batches or len(batches) > bounds.longest:
        return
    known = batches
    if not rules.producers_copied:  # the lane knows only the batches that came here
        known = tuple(batch for offset, batch in held if offset >= len(lane.old))
    for record in bounds.records:
        if takes(known, record, bounds, unknown_begin=not rules.unknown_producers_begin_at_zero):
            yield _put(lane, copier, ((end_of(held), record),), rules)


def _name(batch: int) -> str:
    return {SEAL: "the seal", NOTHING: "an empty batch"}.get(batch, f"record {batch}")


# Rules 20, 21 and 24: the controller; a reader that finds the topic where the descriptor says.


def _controller(state: State, rules: Rules) -> Iterator[Step]:
    if state.phase == "copying" or (state.phase == "sealing" and not rules.called_off_in_time):
        yield "the descriptor says: it stays", state._replace(phase="stays")
    if state.phase == "copying":
        yield "the descriptor says: sealing", state._replace(phase="sealing")
    elif state.phase == "sealing":
        done = [
            lane.done == THIS or (lane.done is not None and not rules.same_move)
            for lane in state.lanes
        ]
        if all(done) if rules.all_done else any(done):
            yield "the descriptor says: moved", state._replace(phase="moved")


def _reader(state: State) -> Iterator[Step]:
    lane = state.lanes[0]
    at_new = state.left_at >= 0
    if state.position < (end_of(lane.new) if at_new else len(lane.old)):
        label = f"the reader passes {state.position} in the {'new' if at_new else 'old'} place"
        yield label, state._replace(position=state.position + 1)
    if state.phase == "moved" and not at_new:
        yield "the reader goes to the new place", state._replace(left_at=state.position)
