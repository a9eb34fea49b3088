"""The only one that deletes (rules 9 and 10).

In this room: what may be deleted when, and the condemnation of outputs that nobody named.
Next door: what a deleted object would break (safety.py).

Reading the newest manifest is one step (rule 1: LIST, GET, LIST); deciding and deleting are two,
and any time may pass between them.
"""

from collections.abc import Callable, Iterator

from tests.model import commits
from tests.model.state import Bounds, Key, Manifest, Rules, Segment, State, delete, put_manifest


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    for label, after in _steps(state, rules, bounds):
        yield f"deleter: {label}", after


def _steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    deleter = state.deleter
    if deleter.armed is not None:
        after = delete(state, deleter.armed)
        label = f"DELETE {_name(deleter.armed)} executes"
        yield label, after._replace(deleter=deleter._replace(armed=None))
        return
    if deleter.condemning is not None:
        created = put_manifest(state, deleter.condemning)
        label = f"PUT manifest {deleter.condemning.generation} executes: "
        label += "lost, starts over" if created is None else "outputs condemned"
        after = created or state
        yield label, after._replace(deleter=deleter._replace(condemning=None))
        return
    if rules.flushes == "watched":
        yield from _watch(state)
    if rules.outputs_condemned_first and state.newest.generation < bounds.generations:
        yield from _condemn(state)
    for key in _deletable(state, rules, bounds):
        label = f"reads manifest {state.newest.generation}, decides to delete {_name(key)}"
        yield label, state._replace(deleter=deleter._replace(armed=key))


def _deletable(state: State, rules: Rules, bounds: Bounds) -> Iterator[Key]:
    newest = state.newest
    key: Key
    for segment in state.segments:
        key = ("flush", segment.base)
        if not commits.names(newest, key) and FLUSH_RULES[rules.flushes](state, segment, bounds):
            yield key
    for output in state.outputs:
        key = ("out", output.plan)
        if commits.names(newest, key):
            continue
        if not rules.outputs_condemned_first or _dropped_long_ago(state, key, bounds):
            yield key
    yield from _deletable_manifests(state, rules, bounds)


def _deletable_manifests(state: State, rules: Rules, bounds: Bounds) -> Iterator[Key]:
    """Rule 10: G after the successor, never the newest."""
    if not rules.newest_survives:
        yield from (("manifest", m.generation) for m, age in state.manifests if age >= bounds.grace)
        return
    for (manifest, _), (_, successor_age) in zip(
        state.manifests, state.manifests[1:], strict=False
    ):
        if successor_age >= bounds.grace or not rules.successor_aged:
            yield ("manifest", manifest.generation)


# Rule 9 for rewritten objects: dropped, and G has passed since.


def _dropped_long_ago(state: State, key: Key, bounds: Bounds) -> bool:
    generation = dict(state.newest.dropped).get(key)
    return generation is not None and _is_old(state, generation, bounds)


def _is_old(state: State, generation: int, bounds: Bounds) -> bool:
    """At least G old, or gone: manifests go only G after their successor. A late PUT that
    re-creates a deleted generation only makes it look younger."""
    ages = {m.generation: age for m, age in state.manifests}
    return ages.get(generation, bounds.grace) >= bounds.grace


def _condemn(state: State) -> Iterator[tuple[str, State]]:
    """Unnamed outputs get a generation of their own; what is deleted leaves the list."""
    newest = state.newest
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


# Rule 9 for flushed objects, in the variants under study.


def _strict(state: State, segment: Segment, bounds: Bounds) -> bool:
    """The manifest read as newest is itself at least G old."""
    return segment.base < state.newest.end and state.manifests[-1][1] >= bounds.grace


def _proposed(state: State, segment: Segment, bounds: Bounds) -> bool:
    """Any manifest object of age G whose content says so. Unsafe: see the tests."""
    return _not_just_dropped(state, segment, bounds) and any(
        age >= bounds.grace and segment.base < m.end for m, age in state.manifests
    )


def _proposed_below_end(state: State, segment: Segment, bounds: Bounds) -> bool:
    """As proposed, and the newest agrees that it is history. Still unsafe: see the tests."""
    return segment.base < state.newest.end and _proposed(state, segment, bounds)


def _relaxed(state: State, segment: Segment, bounds: Bounds) -> bool:
    """The newest manifest says which generation passed this base; that one is at least G old."""
    return _not_just_dropped(state, segment, bounds) and any(
        segment.base < end and _is_old(state, generation, bounds)
        for generation, end in enumerate(state.newest.ends)
    )


def _watched(state: State, segment: Segment, bounds: Bounds) -> bool:
    """The deleter itself read, at least G ago, a newest manifest that ended beyond this base."""
    return _not_just_dropped(state, segment, bounds) and any(
        age >= bounds.grace and segment.base < end for age, end in state.deleter.watched
    )


def _relaxed_ignoring_dropped(state: State, segment: Segment, bounds: Bounds) -> bool:
    """As relaxed, but an adopted object may go as soon as it is no longer named."""
    return any(
        segment.base < end and _is_old(state, generation, bounds)
        for generation, end in enumerate(state.newest.ends)
    )


def _off(state: State, segment: Segment, bounds: Bounds) -> bool:
    return segment.base < state.newest.end


def _not_just_dropped(state: State, segment: Segment, bounds: Bounds) -> bool:
    """An adopted object that a rewrite dropped waits like any rewritten object."""
    key = ("flush", segment.base)
    return key not in dict(state.newest.dropped) or _dropped_long_ago(state, key, bounds)


FLUSH_RULES: dict[str, Callable[[State, Segment, Bounds], bool]] = {
    "strict": _strict,
    "relaxed": _relaxed,
    "watched": _watched,
    "proposed": _proposed,
    "proposed below end": _proposed_below_end,
    "relaxed ignoring dropped": _relaxed_ignoring_dropped,
    "off": _off,
}


def _watch(state: State) -> Iterator[tuple[str, State]]:
    newest: Manifest = state.newest
    watched = state.deleter.watched
    if newest.end and all(end < newest.end for _, end in watched):
        after = tuple(sorted({*watched, (0, newest.end)}))
        label = f"reads manifest {newest.generation}, notes end {newest.end}"
        yield label, state._replace(deleter=state.deleter._replace(watched=after))


def _name(key: Key) -> str:
    return f"{ {'flush': 'segment', 'out': 'output'}.get(key[0], key[0]) } {key[1]}"
