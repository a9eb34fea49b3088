"""The deleter, the only actor that deletes objects (rules 9 and 10).

In this room: what may be deleted when, and the condemnation of outputs that no manifest names.
Next door: what a deleted object would break (safety.py).

Reading the manifests is one step (rule 1: LIST, GET, LIST, all unchanged); deciding and deleting
are two, and any time may pass between them.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.model import commits, pins
from tests.model.state import (
    Bounds,
    Key,
    Manifest,
    Rules,
    Segment,
    State,
    delete,
    manifest_at,
    put_manifest,
)

Step = tuple[str, State]


class Look(NamedTuple):
    """What a pass of the deleter knows about the manifests."""

    ages: tuple[tuple[int, int], ...]  # generation and age, as listed
    newest: Manifest
    old: tuple[Manifest, ...]  # those of at least age G, by generation
    grace: int

    @property
    def aged(self) -> Manifest | None:  # the highest of them
        return self.old[-1] if self.old else None


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    for label, after in _steps(state, rules, bounds):
        yield f"deleter: {label}", after


def _steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    deleter = state.deleter
    if deleter.armed is not None:
        after = delete(state, deleter.armed)
        label = f"DELETE {_name(deleter.armed)} executes"
        yield label, after._replace(deleter=deleter._replace(armed=None))
    elif deleter.condemning is not None:
        created = put_manifest(state, deleter.condemning)
        label = f"PUT manifest {deleter.condemning.generation} executes: "
        label += "lost, starts over" if created is None else "outputs condemned"
        after = created or state
        yield label, after._replace(deleter=deleter._replace(condemning=None))
    elif rules.deleter_lists_twice:
        yield from _decide(state, _look(state, _listing(state), bounds), rules, bounds)
    elif not deleter.listed:
        listing = _listing(state)
        label = f"lists the manifests {[generation for generation, _ in listing]}"
        yield label, state._replace(deleter=deleter._replace(listed=listing))
    else:
        look = _look(state, deleter.listed, bounds)
        state = state._replace(deleter=deleter._replace(listed=()))
        yield from _decide(state, look, rules, bounds)


def another(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    """A second deleter at work while the first one rests between LIST and GET."""
    if state.deleter.listed:
        look = _look(state, _listing(state), bounds)
        for key in _deletable_manifests(look, rules):
            yield f"another deleter: deletes {_name(key)}", delete(state, key)


def _listing(state: State) -> tuple[tuple[int, int], ...]:
    return tuple((m.generation, age) for m, age in state.manifests)


def _look(state: State, ages: tuple[tuple[int, int], ...], bounds: Bounds) -> Look | None:
    """GET the newest and the aged manifest; None if one of them is gone."""
    newest = manifest_at(state, ages[-1][0]) if ages else None
    old = [manifest_at(state, generation) for generation, age in ages if age >= bounds.grace]
    if newest is None or None in old[-1:]:
        return None
    return Look(ages, newest, tuple(m for m in old if m is not None), bounds.grace)


def _decide(state: State, look: Look | None, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    if look is None:
        return
    if rules.outputs_condemned_first and look.newest.generation < bounds.generations:
        yield from _condemn(state, look.newest)
    for key in _deletable(state, look, rules):
        label = f"reads manifest {look.newest.generation}, decides to delete {_name(key)}"
        yield label, state._replace(deleter=state.deleter._replace(armed=key))


def _deletable(state: State, look: Look, rules: Rules) -> Iterator[Key]:
    dropped = dict(look.newest.dropped)
    key: Key
    for segment in state.segments:
        key = ("flush", segment.base)
        if commits.names(look.newest, key) or _is_spared(state, rules, key, segment.base, dropped):
            continue
        if FLUSH_RULES[rules.flushes](segment, look, dropped.get(key)):
            yield key
    for output in state.outputs:
        key = ("out", output.plan)
        if commits.names(look.newest, key) or _is_spared(state, rules, key, output.base, dropped):
            continue
        if not rules.outputs_condemned_first or _long_ago(look, dropped.get(key)):
            yield key
    yield from _deletable_manifests(look, rules)


def _is_spared(state: State, rules: Rules, key: Key, base: int, dropped: dict[Key, int]) -> bool:
    return rules.pins_spared and pins.holds(state.pin, key, base, dropped.get(key))


def _deletable_manifests(look: Look | None, rules: Rules) -> Iterator[Key]:
    """Rule 10: when a higher generation is at least G old; never the newest."""
    if look is None:
        return
    for generation, age in look.ages:
        if not rules.newest_survives:
            gone = age >= look.grace
        elif not rules.successor_aged:
            gone = generation < look.newest.generation
        else:
            gone = look.aged is not None and generation < look.aged.generation
        if gone:
            yield ("manifest", generation)


# Rule 9 for rewritten objects: dropped, and G has passed since.


def _long_ago(look: Look, dropped: int | None) -> bool:
    """Generations up to the aged one are at least as old as it is."""
    return dropped is not None and look.aged is not None and dropped <= look.aged.generation


def _condemn(state: State, newest: Manifest) -> Iterator[Step]:
    """Unnamed outputs get a generation of their own; what is deleted leaves the list."""
    there = {("out", o.plan) for o in state.outputs} | {("flush", s.base) for s in state.segments}
    dropped = {key: at for key, at in newest.dropped if key in there}
    orphans = [
        ("out", o.plan)
        for o in state.outputs
        if not commits.names(newest, ("out", o.plan)) and ("out", o.plan) not in dropped
    ]
    if not orphans and len(dropped) == len(newest.dropped):
        return
    generation = newest.generation + 1
    dropped.update(dict.fromkeys(orphans, generation))
    manifest = commits.successor(newest, f"D.{generation}", dropped=tuple(sorted(dropped.items())))
    names = ", ".join(_name(key) for key in orphans) or "nothing new"
    label = f"reads manifest {newest.generation}, condemns {names}: issues manifest {generation}"
    yield label, state._replace(deleter=state.deleter._replace(condemning=manifest))


# Rule 9 for flushed objects that the newest manifest does not name, in the variants under study.
# `dropped` is the generation that dropped an adopted one, None if it is not on the list.


def _strict(segment: Segment, look: Look, dropped: int | None) -> bool:
    """The manifest read as newest is itself at least G old."""
    return segment.base < look.newest.end and look.ages[-1][1] >= look.grace


def _relaxed(segment: Segment, look: Look, dropped: int | None) -> bool:
    """The highest generation of age G ends beyond it; if adopted, it was dropped by then.

    The highest one of age G is always genuine: a name comes back only after a deletion, and a
    generation is deleted only below one of age G, of which the highest is never deleted.
    """
    if look.aged is None or segment.base >= look.aged.end:
        return False
    return dropped is None or _long_ago(look, dropped)


def _any_old(segment: Segment, look: Look, dropped: int | None) -> bool:
    """As relaxed, but any manifest object of age G will do."""
    if all(segment.base >= manifest.end for manifest in look.old):
        return False
    return dropped is None or _long_ago(look, dropped)


def _any_old_below_end(segment: Segment, look: Look, dropped: int | None) -> bool:
    """As before, and the newest manifest agrees that it is history."""
    return segment.base < look.newest.end and _any_old(segment, look, dropped)


def _relaxed_ignoring_dropped(segment: Segment, look: Look, dropped: int | None) -> bool:
    """As relaxed, but an adopted object goes as soon as it is no longer named."""
    return _relaxed(segment, look, None)


def _off(segment: Segment, look: Look, dropped: int | None) -> bool:
    return segment.base < look.newest.end


FlushRule = Callable[[Segment, Look, int | None], bool]
FLUSH_RULES: dict[str, FlushRule] = {
    "strict": _strict,
    "relaxed": _relaxed,
    "relaxed, ignoring dropped": _relaxed_ignoring_dropped,
    "any old manifest": _any_old,
    "any old manifest, below end": _any_old_below_end,
    "off": _off,
}


def _name(key: Key) -> str:
    return f"{ {'flush': 'segment', 'out': 'output'}.get(key[0], key[0]) } {key[1]}"
