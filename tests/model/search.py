"""Breadth-first search through all states within bounds; the first hit has a shortest trace.

In this room: the successor relation put together from the actors, the search, the trace.
Next door: the actors; safety.py.

Seen states are kept as 64-bit hashes with the hash of their predecessor (a collision among a
million states has a chance of about 1 in 10^7); a trace is found again by replaying from the start.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tests.model import deleter, jobs, pins, safety, writers
from tests.model.state import (
    EMPTY,
    Bounds,
    Rules,
    Segment,
    State,
    Writer,
    initial,
    leave_behind,
    put_manifest,
    put_segment,
    tick,
)

ANY = frozenset(
    {
        safety.LOST,
        safety.GHOST,
        safety.STALE,
        safety.DANGLING,
        safety.UNREADABLE,
        safety.SHOWN,
        safety.GAP,
        safety.DUPLICATE,
        safety.INTRUDER,
        safety.UNPINNED,
        safety.ALARM,
    }
)


@dataclass(frozen=True)
class Result:
    states: int
    exhausted: bool  # every state within the bounds was seen
    violation: str  # "" if none
    trace: tuple[str, ...]

    def __str__(self) -> str:
        if not self.violation:
            how = "all" if self.exhausted else "the first"
            return f"nothing found in {how} {self.states:,} states"
        lines = [f"  {n:2}. {step}" for n, step in enumerate(self.trace, 1)]
        return "\n".join([f"after {self.states:,} states:", *lines, f"  => {self.violation}"])


def successors(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    yield from writers.steps(state, rules, bounds)
    yield from jobs.steps(state, rules, bounds)
    if bounds.pinner:
        yield from pins.steps(state, rules, bounds)
    if bounds.deleter:
        yield from deleter.steps(state, rules, bounds)
        yield from deleter.another(state, rules, bounds)
    yield from _late_puts(state, rules)
    if state.recreations:
        yield "the topic is deleted and created again", _recreate(state, rules)
    older = tick(state, bounds.grace)
    if older != state:
        yield "time passes", older


def _late_puts(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    for put in state.late:
        rest = state._replace(late=tuple(other for other in state.late if other != put))
        if isinstance(put, Segment):
            created = put_segment(rest, put)
            name = f"segment {put.base}{list(put.records)}"
        else:
            created = put_manifest(rest, put)
            name = f"manifest {put.generation}"
        if created is not None:  # one that finds its name taken changes nothing
            yield f"the late PUT of {name} executes", created


def _recreate(state: State, rules: Rules) -> State:
    """All objects go, and all brokers forget the log. PUTs in flight stay in flight, unless
    rule 11 gives the new topic a prefix of its own, where they cannot arrive."""
    flushes = [w.flush.segment for w in state.writers if w.flush and not w.flush.answer]
    commits = [a.roll_up for a in state.writers] + [job.commit for job in state.jobs]
    manifests = [commit.manifest for commit in commits if commit and not commit.answer]
    after = leave_behind(state, [*flushes, *manifests])
    return after._replace(
        manifests=((EMPTY, 0),),
        segments=(),
        outputs=(),
        late=() if rules.incarnation else after.late,
        writers=tuple(
            Writer(w.name, w.life + 1, "down", None, 0, None, None, (0, 0), min(w.seen, 0))
            for w in state.writers
        ),
        jobs=tuple(job._replace(life=job.life + 1, commit=None) for job in state.jobs),
        deleter=state.deleter._replace(armed=None, condemning=None, listed=()),
        born=state.used,
        pin=None,
        recreations=state.recreations - 1,
    )


def follow(rules: Rules, bounds: Bounds, labels: Iterable[str]) -> State:
    """The state after the steps with these labels: a prepared start for deep searches."""
    state = initial(bounds)
    for wanted in labels:
        offered = dict(successors(state, rules, bounds))
        assert wanted in offered, f"no step {wanted!r}; there are {sorted(offered)}"
        state = offered[wanted]
    return state


def search(
    rules: Rules,
    bounds: Bounds,
    wanted: Collection[str] = ANY,
    prefix: tuple[str, ...] = (),
    limit: int = 3_000_000,
) -> Result:
    """Look for a step that breaks one of the wanted promises, from behind a prefix of steps.

    Behind an alarm the log stands still; behind other broken promises the search goes on if they
    are not wanted.
    """
    start = follow(rules, bounds, prefix)
    parents: dict[int, int] = {hash(start): 0}
    level = [start]
    while level:
        following: list[State] = []
        for state in level:
            for label, after in successors(state, rules, bounds):
                mark = hash(after)
                if mark in parents:
                    continue
                broken = safety.violations(state, after, rules, bounds)
                parents[mark] = hash(state)
                hit = next((kind for kind in broken if kind in wanted), "")
                if hit:
                    trace = (*prefix, *_replay(start, hash(state), parents, rules, bounds), label)
                    return Result(len(parents), False, hit, trace)
                if safety.ALARM not in broken:
                    following.append(after)
        if len(parents) > limit:
            return Result(len(parents), False, "", ())
        level = following
    return Result(len(parents), True, "", ())


def _replay(
    start: State, goal: int, parents: dict[int, int], rules: Rules, bounds: Bounds
) -> tuple[str, ...]:
    marks = [goal]
    while marks[-1] != hash(start):
        marks.append(parents[marks[-1]])
    labels: list[str] = []
    state = start
    for mark in reversed(marks[:-1]):
        label, state = next(
            (label, after)
            for label, after in successors(state, rules, bounds)
            if hash(after) == mark
        )
        labels.append(label)
    return tuple(labels)
