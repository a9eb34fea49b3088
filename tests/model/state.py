"""The state of one log: what the store holds and what each actor remembers.

In this room: objects, memories, the rules as switches, the bounds of a search, the clock.
Next door: the steps (writers.py, jobs.py, deleter.py), what must hold (safety.py), search.py.
Never here: I/O, dice, wall time. Everything is a tuple, so that states can be hashed and compared.

Ages, not dates: every date is kept as an age in ticks that stops counting at G. Beyond G nothing
can tell two ages apart, so pauses of any length are covered by finitely many states.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Record = int
Key = tuple[str, Any]  # ("flush", base) is tail-named; ("out", plan) is a rewritten object


@dataclass(frozen=True)
class Rules:
    """Rules 1 to 12 and 26 of docs/formats/log-protocol.md. Some have several parts."""

    open_lists_twice: bool = True  # 1: brokers and readers
    opening: str = "twice"  # 1: or "in time": one LIST while it is fresh; "any time": never judged
    deleter_lists_twice: bool = True  # 1: the deleter
    content_id: bool = True  # 2
    proof_of_tail: bool = True  # 3
    proof_dated_by_store: bool = True  # 3: dating of a check whose answer is read late
    exists_dated_by_issue: bool = True  # 3: dating of an "already exists, ours"
    age_judged_after_put: bool = True  # 3
    check_lists: bool = True  # 4
    predecessor_id: bool = True  # 5
    commit_resolved: bool = True  # 6: a timeout is retried to a definite answer
    commit_listed: bool = True  # 6: Created is believed only after a LIST
    loser_revalidates: bool = True  # 7
    dropped_before_exists: bool = True  # 7: the order of the two looks
    end_stays: bool = True  # 8
    snapshot_handed_on: bool = True  # 8
    outputs_condemned_first: bool = True  # 9: rewritten objects
    flushes: str = "strict"  # 9: tail-named objects; see deleter.FLUSH_RULES
    pins_spared: bool = True  # 9: what a pin holds stays
    pin_in_time: bool = True  # 9: a snapshot counts if its pin stood within G of the look
    newest_survives: bool = True  # 10: off = expired by age alone
    successor_aged: bool = True  # 10: off = deleted as soon as superseded
    incarnation: bool = True  # 11
    roll_up_committed_only: bool = True  # 12
    roll_up_same_end: bool = True  # 12: a job that rolls up re-applies only where it began
    roll_up_loser: str = "re-opens"  # 12: or "re-applies", if the end has not moved
    reads_judged: bool = True  # 26: what was read by an old view is shown after a LIST only
    read_judged_after_get: bool = True  # 26
    reads_judged_by_view: bool = True  # 26: off = a fresh proof of the tail is enough

    def without(self, *names: str, **changed: Any) -> "Rules":
        changed.update(dict.fromkeys(names, False))
        return replace(self, **changed)


@dataclass(frozen=True)
class Bounds:
    """What one search may do. Everything not bounded here is unbounded (time, pauses, retries)."""

    records: int = 2
    writers: int = 2
    grace: int = 2  # G in ticks; a proof is fresh while its age is at most G // 2
    generations: int = 2  # no manifest beyond this one is planned
    roll_ups: tuple[str, ...] = ("merge",)  # "merge", "adopt", "mixed"
    rolling: str = "AB"  # the actors that roll up
    jobs: tuple[str, ...] = ()  # one foreign job each: "compact" or "retain"
    deleter: bool = True
    faults: int = 0  # timeouts, lost answers, crashes: together
    crashes: bool = False  # may faults be crashes
    recreations: int = 0  # the topic is deleted and created again
    periodic_checks: bool = False  # the owner looks for foreign generations while idle
    opened: tuple[int, ...] = (0, 1)  # writers that start with the log open; the rest start down
    reader: bool = False  # a reader opens the log, reads on, and looks for newer manifests
    roller: bool = False  # a job "T" that rolls up the tail: opens, adopts, leaves
    pinner: bool = False  # a pinner takes a named snapshot
    reads: bool = False  # owners read objects of the past for their consumers
    rolled: int = 0  # records that manifest 0 already names, one flushed object each

    @property
    def fresh_until(self) -> int:
        return self.grace // 2


class Segment(NamedTuple):
    """A flushed object; the key is its base."""

    base: int
    id: str
    records: tuple[Record, ...]
    previous: str  # rule 5: the id of the segment that ends at our base

    @property
    def end(self) -> int:
        return self.base + len(self.records)


class Output(NamedTuple):
    """A rewritten object; the key is the plan that made it, never used again."""

    plan: str
    base: int
    records: tuple[Record, ...]


class Entry(NamedTuple):
    key: Key
    base: int
    end: int


class Manifest(NamedTuple):
    generation: int
    plan: str  # the commit id of rule 6
    start: int
    end: int
    entries: tuple[Entry, ...]
    dropped: tuple[tuple[Key, int], ...]  # with the generation that dropped it
    last_id: str  # id of the segment that ended at `end`, for rule 5
    snapshot: tuple[Record, ...]  # producer state: records below `end`, gone ones too


class View(NamedTuple):
    """What an opener knows: a manifest, and the chain it walked after it."""

    manifest: Manifest
    tail: tuple[Segment, ...]

    @property
    def end(self) -> int:  # the high watermark that this opener shows
        return self.tail[-1].end if self.tail else self.manifest.end

    @property
    def last_id(self) -> str:
        return self.tail[-1].id if self.tail else self.manifest.last_id

    @property
    def known(self) -> tuple[Record, ...]:  # duplicate detection
        return self.manifest.snapshot + tuple(r for s in self.tail for r in s.records)


class Flush(NamedTuple):
    """One PUT of a segment. answer: "" in flight, created, exists, check (rule 4 is due)."""

    segment: Segment
    answer: str
    issued: int  # age of the first issue of these bytes
    executed: int  # age of the execution, once created
    proof_was_fresh: bool  # judged before the PUT: only a log without rule 3 looks at it


class Commit(NamedTuple):
    """One PUT of a manifest. answer: "" in flight, created, exists, unseen (output to look up)."""

    manifest: Manifest
    answer: str
    inputs: tuple[Entry, ...]
    outputs: tuple[Key, ...]


class Got(NamedTuple):
    """An object that a writer is reading for a consumer. stage: asked, held, shown."""

    stage: str
    base: int
    key: Key
    records: tuple[Record, ...] = ()


class Writer(NamedTuple):
    name: str
    life: int
    # down, walked, ready; named and reading where one LIST may do; listed (only without rule 1),
    # answered (only without dating)
    stage: str
    view: View | None
    proof: int  # age of the last proof of the tail
    flush: Flush | None
    roll_up: Commit | None
    # The generation listed, the end at that moment, and where one LIST may do the bases listed.
    listed: tuple[int, ...]
    # Age of the last LIST by which the view's manifest was the newest; -1 where none reads.
    seen: int = -1
    got: Got | None = None


class Job(NamedTuple):
    name: str
    kind: str
    life: int
    commit: Commit | None


class Pin(NamedTuple):
    """A named snapshot. stage: looked, put (the pin is there), kept (promised), given up."""

    stage: str
    keys: tuple[Key, ...]  # what the log consisted of
    generation: int
    end: int
    age: int  # of the look


class Deleter(NamedTuple):
    armed: Key | None  # decided, not yet executed
    condemning: Manifest | None
    listed: tuple[tuple[int, int], ...]  # without rule 1: generations and their ages


class State(NamedTuple):
    manifests: tuple[tuple[Manifest, int], ...]  # with ages, by generation
    segments: tuple[Segment, ...]  # by base
    outputs: tuple[Output, ...]  # by plan
    late: tuple[Segment | Manifest, ...]  # PUTs that may still execute, though their sender gave up
    writers: tuple[Writer, ...]
    jobs: tuple[Job, ...]
    deleter: Deleter
    used: int  # records handed out so far; the next new one is this number
    faults: int
    recreations: int
    born: int  # first record of the current incarnation
    pin: Pin | None

    @property
    def newest(self) -> Manifest:
        return self.manifests[-1][0] if self.manifests else EMPTY


EMPTY = Manifest(0, "-", 0, 0, (), (), "-", ())


def initial(bounds: Bounds) -> State:
    """An empty or rolled-up log; the chosen writers have it open and their proof is fresh."""
    segments: tuple[Segment, ...] = ()
    for n in range(bounds.rolled):
        segments += (Segment(n, f"old{n}", (n,), segments[-1].id if n else "-"),)
    manifest = EMPTY._replace(
        end=len(segments),
        entries=tuple(Entry(("flush", s.base), s.base, s.end) for s in segments),
        last_id=segments[-1].id if segments else "-",
        snapshot=tuple(range(bounds.rolled)),
    )
    writers = tuple(
        Writer(
            name,
            0,
            "ready" if n in bounds.opened and name != "T" else "down",
            View(manifest, ()) if n in bounds.opened and name != "T" else None,
            0,
            None,
            None,
            (0, 0),
            0 if bounds.reads else -1,
        )
        for n, name in enumerate(
            [*"AB"[: bounds.writers], *["R"] * bounds.reader, *["T"] * bounds.roller]
        )
    )
    jobs = tuple(Job(f"J{n}", kind, 0, None) for n, kind in enumerate(bounds.jobs))
    return State(
        manifests=((manifest, 0),),
        segments=segments,
        outputs=(),
        late=(),
        writers=writers,
        jobs=jobs,
        deleter=Deleter(None, None, ()),
        used=bounds.rolled,
        faults=bounds.faults,
        recreations=bounds.recreations,
        born=0,
        pin=None,
    )


# The store. LIST and GET are reads of the state; PUT and DELETE are these.


def segment_at(state: State, base: int) -> Segment | None:
    return next((s for s in state.segments if s.base == base), None)


def output_of(state: State, plan: str) -> Output | None:
    return next((o for o in state.outputs if o.plan == plan), None)


def manifest_at(state: State, generation: int) -> Manifest | None:
    return next((m for m, _ in state.manifests if m.generation == generation), None)


def exists(state: State, key: Key) -> bool:
    kind, name = key
    if kind == "flush":
        return segment_at(state, name) is not None
    return output_of(state, name) is not None


def put_segment(state: State, segment: Segment) -> State | None:
    """Create if absent; None if the name is taken."""
    if segment_at(state, segment.base) is not None:
        return None
    return state._replace(segments=tuple(sorted((*state.segments, segment))))


def put_manifest(state: State, manifest: Manifest) -> State | None:
    """Create if absent; None if the name is taken."""
    if manifest_at(state, manifest.generation) is not None:
        return None
    return state._replace(manifests=tuple(sorted((*state.manifests, (manifest, 0)))))


def put_output(state: State, output: Output) -> State:
    assert output_of(state, output.plan) is None, "names of outputs are never used twice"
    return state._replace(outputs=tuple(sorted((*state.outputs, output))))


def delete(state: State, key: Key) -> State:
    kind, name = key
    if kind == "flush":
        return state._replace(segments=tuple(s for s in state.segments if s.base != name))
    if kind == "out":
        return state._replace(outputs=tuple(o for o in state.outputs if o.plan != name))
    return state._replace(manifests=tuple(m for m in state.manifests if m[0].generation != name))


def leave_behind(state: State, puts: Iterable[Segment | Manifest]) -> State:
    """PUTs whose sender no longer waits: each may still execute, at any time, or never."""
    return state._replace(late=tuple(sorted({*state.late, *puts}, key=repr)))


def tick(state: State, grace: int) -> State:
    """Time passes for every actor; ages stop at G."""
    manifests = tuple([(m, age + 1 if age < grace else age) for m, age in state.manifests])
    writers = tuple([_older(w, grace) for w in state.writers])
    pin = state.pin
    if pin is not None and pin.stage in ("looked", "put") and pin.age < grace:
        pin = pin._replace(age=pin.age + 1)
    return state._replace(manifests=manifests, writers=writers, pin=pin)


def _older(writer: Writer, grace: int) -> Writer:
    name, life, stage, view, proof, flush, roll_up, listed, seen, got = writer
    if flush is not None:
        flush = flush._replace(
            issued=min(flush.issued + 1, grace),
            executed=min(flush.executed + 1, grace) if flush.answer == "created" else 0,
        )
    elif (view is None and stage != "named") or (proof == grace and seen in (-1, grace)):
        return writer
    proof = proof + 1 if proof < grace else proof
    seen = seen + 1 if 0 <= seen < grace else seen
    return Writer(name, life, stage, view, proof, flush, roll_up, listed, seen, got)
