"""Named snapshots: the pinner looks at the log and pins what it saw, so that the deleter keeps it.

In this room: the look, the PUT of the pin, the judgement that it stood in time; what a pin holds.
Next door: the deleter that must spare it (deleter.py), the promise (safety.py).

A pin names a generation and an end, not objects: what it holds is judged by names, as in
src/kafscale/log/formats/keys.py. One snapshot is taken and never given up.
"""

from collections.abc import Iterator

from tests.model.state import Bounds, Key, Pin, Rules, State
from tests.model.writers import walk


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    pin = state.pin
    if pin is None:
        newest = state.newest
        tail, stopped = walk(state, newest, rules)
        if not stopped:
            keys = tuple(e.key for e in newest.entries) + tuple(("flush", s.base) for s in tail)
            end = tail[-1].end if tail else newest.end
            seen = Pin("looked", keys, newest.generation, end, 0)
            label = f"snapshot: reads manifest {newest.generation}, walks to {end}"
            yield label, state._replace(pin=seen)
    elif pin.stage == "looked":
        yield "snapshot: PUT pin executes", state._replace(pin=pin._replace(stage="put"))
    elif pin.stage == "put":
        in_time = pin.age < bounds.grace or not rules.pin_in_time
        label = "snapshot: its pin stands" + ("" if in_time else ", too late: gives up")
        yield label, state._replace(pin=pin._replace(stage="kept" if in_time else "given up"))


def holds(pin: Pin | None, key: Key, base: int, dropped: int | None) -> bool:
    """Whether a pin that stands may need an object, given the generation that dropped it."""
    if pin is None or pin.stage not in ("put", "kept"):
        return False
    was_there = key[0] == "flush" or int(key[1].rpartition(".")[2]) <= pin.generation
    was_named = dropped is None or dropped > pin.generation
    return base < pin.end and was_there and was_named
