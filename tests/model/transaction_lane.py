"""One lane with transactions: its owners, its manifest, a reader of committed records, the jobs.

In this room: the state, the steps, and the search through all of them.
Next door: one transaction over two lanes (transaction_state.py).

All records have one key. Record 0 belongs to no transaction; record n is that of transaction n. The
environment decides transactions, which is what the other model is about. Two brokers take
themselves for the owner. What they append waits, and is committed by a PUT that fails for a broker
that does not know the tail.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tests.model.explore import explore
from tests.model.search import Result

COMMIT, ABORT = "C", "A"
ABORTED_READ: Final = "ABORTED READ: a reader of committed records got another one"
UNSTABLE: Final = "UNSTABLE: the last stable offset went back"
SHADOWED: Final = "SHADOWED: the newest committed record of a key is gone"
BEHIND: Final = "BEHIND: a record stands behind the marker of its transaction"


@dataclass(frozen=True)
class Rules:
    """T10 to T13 and T17 of docs/internals/transactions.md."""

    committed_chain_only: bool = True  # T10
    handed_on: bool = True  # T11
    ranges_before_data: bool = True  # T12
    jobs_stay_below: bool = True  # T13
    aborted_shadow_nothing: bool = True  # T13, its second half
    never_again: bool = True  # T17

    def without(self, *names: str) -> "Rules":
        return replace(self, **dict.fromkeys(names, False))


@dataclass(frozen=True)
class Bounds:
    transactions: int = 1
    roll_ups: int = 1
    jobs: int = 1
    openings: int = 3


class Entry(NamedTuple):
    number: int
    ends: str = ""  # "": a record; else the marker of transaction `number`


Ranges = tuple[tuple[int, int], ...]


class View(NamedTuple):
    """What follows from a chain: where a transaction is open, and which ranges are aborted."""

    end: int = 0
    first_open: int = -1
    aborted: Ranges = ()


class Owner(NamedTuple):
    view: View | None = None  # None: closed
    waiting: tuple[Entry, ...] = ()
    again: tuple[Entry, ...] = ()  # T17 off: it appends them again


class Reader(NamedTuple):
    until: int = -1  # as a broker told it with the ranges
    aborted: Ranges | None = None
    data: tuple[tuple[int, Entry], ...] | None = None


class State(NamedTuple):
    chain: tuple[Entry, ...] = (Entry(0),)
    gone: frozenset[int] = frozenset()  # positions that jobs have dropped
    forgotten: Ranges = ()  # aborted ranges that went with their data
    manifest: View = View()
    decided: tuple[str, ...] = ()  # by transaction
    owners: tuple[Owner, ...] = (Owner(), Owner())
    told: int = 0  # the highest last stable offset
    reader: Reader = Reader()
    rolled_up: int = 0
    jobs: int = 0
    openings: int = 0


def stable(view: View) -> int:
    return view.end if view.first_open < 0 else view.first_open


def extend(view: View, chain: tuple[Entry, ...]) -> View:
    """Take up the rest of a chain: a function of its committed entries."""
    first, aborted = view.first_open, view.aborted
    for at in range(view.end, len(chain)):
        entry = chain[at]
        if not entry.number:
            continue
        if not entry.ends:
            first = at if first < 0 else first
        else:
            if entry.ends == ABORT and first >= 0:
                aborted = (*aborted, (first, at))
            first = -1
    return View(len(chain), first, aborted)


def successors(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    number = len(state.decided) + 1
    if number <= bounds.transactions and _is_done(state, number - 1):
        for outcome in (COMMIT, ABORT):
            if outcome == ABORT or Entry(number) in state.chain:
                decided = (*state.decided, outcome)
                yield f"{number} is decided: {outcome}", state._replace(decided=decided)
    for at, owner in enumerate(state.owners):
        for label, after in _owner(state, at, owner, rules, bounds):
            yield f"{'XY'[at]} {label}", after
    yield from _read(state, rules)
    if state.jobs < bounds.jobs:
        yield from _jobs(state, rules)


def _with(state: State, at: int, owner: Owner) -> State:
    one, two = state.owners
    return state._replace(owners=(owner, two) if at == 0 else (one, owner))


def _owner(
    state: State, at: int, owner: Owner, rules: Rules, bounds: Bounds
) -> Iterator[tuple[str, State]]:
    view = owner.view
    if view is None:
        if state.openings < bounds.openings:
            opened = Owner(extend(state.manifest, state.chain), owner.again)
            yield "opens", _with(state, at, opened)._replace(openings=state.openings + 1)
        return
    for entry in _to_append(state, owner):
        appended = owner._replace(waiting=(*owner.waiting, entry))
        yield f"appends {entry.number}{entry.ends}", _with(state, at, appended)
    if owner.waiting and view.end == len(state.chain):
        chain = (*state.chain, *owner.waiting)
        after = state._replace(chain=chain)
        yield "commits", _with(after, at, Owner(extend(view, chain)))
    elif view.end != len(state.chain):
        records = tuple(entry for entry in owner.waiting if not entry.ends)
        yield (
            "loses the log",
            _with(state, at, Owner(None, (), () if rules.never_again else records)),
        )
    told = (
        view
        if rules.committed_chain_only
        else extend(view, (*state.chain[: view.end], *owner.waiting))
    )
    if view.end == len(state.chain):
        yield f"tells {stable(told)}", state._replace(told=max(state.told, stable(told)))
        if state.rolled_up < bounds.roll_ups:
            handed = view if rules.handed_on else View(view.end)
            yield "rolls up", state._replace(manifest=handed, rolled_up=state.rolled_up + 1)


def _to_append(state: State, owner: Owner) -> Iterator[Entry]:
    there = state.chain + owner.waiting
    number = len(state.decided) + 1
    if _is_done(state, number - 1) and Entry(number) not in there:
        yield Entry(number)
    for ended, outcome in enumerate(state.decided, 1):
        if not any(entry.number == ended and entry.ends for entry in there):
            yield Entry(ended, outcome)


def _is_done(state: State, number: int) -> bool:
    return not number or any(row.number == number and row.ends for row in state.chain)


# -- a reader ------------------------------------------------------------------------------------


def _read(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    reader = state.reader
    for at, owner in enumerate(state.owners):
        if owner.view is None or owner.view.end != len(state.chain):
            continue
        known = tuple(row for row in owner.view.aborted if row not in state.forgotten)
        if reader.until < 0:
            began = Reader(stable(owner.view), known if rules.ranges_before_data else None)
            yield f"the reader asks {'XY'[at]}", state._replace(reader=began)
        elif reader.data is not None and reader.aborted is None:
            told = state._replace(reader=reader._replace(aborted=known))
            yield "the reader is told the ranges", told
    if reader.until >= 0 and reader.data is None:
        data = tuple(
            (at, entry)
            for at, entry in enumerate(state.chain[: reader.until])
            if at not in state.gone and not entry.ends
        )
        yield "the reader gets data", state._replace(reader=reader._replace(data=data))


# -- jobs ----------------------------------------------------------------------------------------


def _jobs(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    view = extend(View(), state.chain)
    done = state._replace(jobs=state.jobs + 1)
    if view.aborted:
        dropped = {at for first, last in view.aborted for at in range(first, last)}
        after = done._replace(gone=state.gone | dropped, forgotten=view.aborted)
        yield "compaction drops what is aborted", after
    end = stable(view) if rules.jobs_stay_below else view.end
    kept = [
        at
        for at, entry in enumerate(state.chain[:end])
        if not entry.ends
        and not (rules.aborted_shadow_nothing and _in(view.aborted, at))
        and at not in state.gone
    ]
    if len(kept) > 1:
        after = done._replace(gone=state.gone | frozenset(kept[:-1]))
        yield "compaction by key keeps the newest", after


def _in(ranges: Ranges, at: int) -> bool:
    return any(first <= at < last for first, last in ranges)


# -- what must not be ----------------------------------------------------------------------------


def _violation(before: State, label: str, after: State) -> str:
    if "tells" in label and int(label.split()[-1]) < before.told:
        return UNSTABLE
    if "tells" in label and after.told > stable(extend(View(), after.chain)):
        return UNSTABLE if len(after.chain) < after.told else ABORTED_READ
    ended: set[int] = set()
    for entry in after.chain:
        if entry.ends:
            ended.add(entry.number)
        elif entry.number in ended:
            return BEHIND
    reader = after.reader
    for at, entry in reader.data or ():
        is_shown = reader.aborted is not None and not _in(reader.aborted, at)
        if is_shown and entry.number and not _is_committed(after, entry):
            return ABORTED_READ
    committed = [at for at, e in enumerate(after.chain) if not e.ends and _is_committed(after, e)]
    return SHADOWED if committed and committed[-1] in after.gone else ""


def _is_committed(state: State, entry: Entry) -> bool:
    outcomes = (COMMIT, *state.decided)
    return entry.number < len(outcomes) and outcomes[entry.number] == COMMIT


def search(rules: Rules, bounds: Bounds) -> Result:
    """Look for a broken promise, by a shortest trace."""
    return explore(State(), lambda state: successors(state, rules, bounds), _violation)
