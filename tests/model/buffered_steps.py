"""Transactions whose records wait in memory for their commit: the steps, and the search.

In this room: what a client, the row, two brokers and the loss of the metadata store do.
Next door: the state and what must not be (buffered_state.py), the rules with their tests
(test_buffered_rules.py).
"""

from collections.abc import Iterable, Iterator

from tests.model.buffered_state import (
    ABORT,
    AT_REST,
    COMMIT,
    HANGING,
    LANES,
    NAMES,
    ONGOING,
    STAGED,
    Bounds,
    Broker,
    Client,
    Entry,
    Row,
    Rules,
    State,
    judge,
    open_epoch,
    outcome_in,
)
from tests.model.explore import explore
from tests.model.search import Result

Step = tuple[str, State]
_RECOVERED = 90  # a turn that no transaction has


def search(rules: Rules, bounds: Bounds) -> Result:
    """Look for a broken promise, by a shortest trace."""
    settled: dict[tuple[object, ...], str] = {}

    def at_rest(state: State) -> str:
        kept = state.row, state.lanes, state.acked, state.told
        if kept not in settled:
            settled[kept] = settle(state, rules, bounds)
        return settled[kept]

    return explore(
        State(),
        lambda state: steps(state, rules, bounds),
        lambda _, __, after: judge(after, bounds),
        at_rest=at_rest,
    )


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    yield from _client(state, bounds)
    yield from _ends(state, rules, bounds)
    yield from _row(state, rules, bounds)
    for number in (0, 1):
        for label, after in _broker(state, number, rules, bounds):
            yield f"{'XY'[number]} {label}", after
    if state.losses < bounds.losses:
        yield "the metadata store is lost and rebuilt", _rebuilt(state, bounds)


# -- the client ----------------------------------------------------------------------------------


def _client(state: State, bounds: Bounds) -> Iterator[Step]:
    number, phase, epoch = state.client
    if phase == "begin":
        sent = state.sent | {("produce", number, lane, epoch) for lane in LANES}
        yield (
            f"the client sends {number}",
            state._replace(client=state.client._replace(phase="sent"), sent=sent),
        )
    if phase != "sent":
        return
    if all((number, lane) in state.acked for lane in LANES):
        yield _asks(state, COMMIT)
    if bounds.gives_up:
        yield _asks(state, ABORT)


def _asks(state: State, outcome: str) -> Step:
    number, _, epoch = state.client
    after = state._replace(
        client=state.client._replace(phase=f"ends {outcome}"),
        sent=state.sent | {(f"end {outcome}", number, -1, epoch)},
    )
    return f"the client asks for {outcome}{number}", after


def _tell(state: State, number: int, outcome: str, bounds: Bounds) -> State:
    told = state._replace(told=state.told | {(number, outcome)})
    if (state.client.transaction, state.client.phase) != (number, f"ends {outcome}"):
        return told
    if number >= bounds.transactions:
        return told._replace(client=state.client._replace(phase="finished"))
    return told._replace(client=Client(number + 1, "begin", state.row.epoch))


# -- the row -------------------------------------------------------------------------------------


def _ends(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    row = state.row
    for what, number, _, epoch in state.sent:
        if not what.startswith("end"):
            continue
        outcome = what[-1]
        name = f"EndTxn {outcome}{number}"
        if row.state == ONGOING and row.epoch == epoch:
            held = outcome == COMMIT and rules.staged_first
            ended = STAGED if held else outcome
            after = row._replace(epoch=epoch + 1, state=ended, ended=epoch)
            yield f"{name}: {ended}", state._replace(row=after)
        elif row.ended == epoch and row.epoch == epoch + 1:
            if row.state == outcome.lower() and (number, outcome) not in state.told:
                yield f"{name} is answered", _tell(state, number, outcome, bounds)
            elif row.state in AT_REST and state.client[:2] == (number, f"ends {outcome}"):
                told = state.told | {(number, ABORT)} if row.state == "a" else state.told
                dead = state._replace(client=state.client._replace(phase="dead"), told=told)
                yield f"{name} is refused", dead
        elif row.state in AT_REST and row.epoch == epoch and outcome == ABORT:
            raised = row._replace(epoch=epoch + 1, state="a", ended=epoch)
            after = _tell(state._replace(row=raised), number, ABORT, bounds)
            yield f"{name} ends nothing", after


def _row(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    row = state.row
    may_be_late = state.timeouts < bounds.timeouts
    if row.state == ONGOING and may_be_late:
        late = row._replace(epoch=row.epoch + 1, state=ABORT, ended=row.epoch)
        yield "its time is over", state._replace(row=late, timeouts=state.timeouts + 1)
    if row.state == STAGED:
        if bounds.one_log:
            found = _said(state, rules)
            for outcome in found:
                yield f"the chain says {outcome}", state._replace(row=row._replace(state=outcome))
            if not rules.chain_decides and may_be_late:
                late = state._replace(timeouts=state.timeouts + 1)
                yield "a staged one is too late", late._replace(row=row._replace(state=ABORT))
        elif row.kept >= row.sessions or (row.kept and not rules.all_kept):
            yield "all is kept", state._replace(row=row._replace(state=COMMIT))
    marked = all(outcome_in(state.lanes[lane], row.turn) for lane in row.places)
    if row.state in (COMMIT, ABORT) and marked:
        done = row._replace(
            state=row.state.lower(), places=frozenset(), sessions=frozenset(), kept=frozenset()
        )
        yield "it is done", state._replace(row=done)


def _said(state: State, rules: Rules) -> set[str]:
    """What a broker that looks at the chains may take for the outcome."""
    row = state.row
    if rules.first_marker_counts:
        return {outcome_in(state.lanes[lane], row.turn) for lane in row.places} - {""}
    found = (entry for lane in row.places for entry in state.lanes[lane])
    return {entry.ends for entry in found if entry.ends and entry.turn == row.turn}


# -- the brokers ---------------------------------------------------------------------------------


def _with(state: State, number: int, broker: Broker) -> State:
    one, two = state.brokers
    return state._replace(brokers=(broker, two) if number == 0 else (one, broker))


def _lanes_of(log: int, bounds: Bounds) -> list[int]:
    return [lane for lane in LANES if bounds.log_of(lane) == log]


def _let_go(broker: Broker, log: int, session: int, bounds: Bounds) -> Broker:
    """A broker opens a log, or has lost it: what it held is gone."""
    lanes = _lanes_of(log, bounds)
    return Broker(
        tuple(session if at == log else old for at, old in enumerate(broker.sessions)),
        tuple(() if lane in lanes else old for lane, old in enumerate(broker.held)),
        frozenset(row for row in broker.admitted if row[0] not in lanes),
    )


def _write(
    state: State, number: int, log: int, markers: dict[int, Entry], rules: Rules, bounds: Bounds
) -> State:
    """One object: all that is held for a log, and markers behind it. The other broker loses."""
    broker, lanes = state.brokers[number], list(state.lanes)
    held, admitted = list(broker.held), broker.admitted
    for lane in _lanes_of(log, bounds):
        lanes[lane] = (*lanes[lane], *held[lane])
        held[lane] = ()
        if lane in markers:
            there = outcome_in(lanes[lane], markers[lane].turn)
            if not (there and rules.first_marker_counts):
                lanes[lane] = (*lanes[lane], markers[lane])
            admitted = frozenset(row for row in admitted if row[0] != lane)
    wrote = broker._replace(held=tuple(held), admitted=admitted)
    other = _let_go(state.brokers[1 - number], log, 0, bounds)
    after = _with(_with(state, number, wrote), 1 - number, other)
    return after._replace(lanes=tuple(lanes))


def _broker(state: State, number: int, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    broker = state.brokers[number]
    if state.crashes < bounds.crashes and broker != Broker():
        yield "crashes", _with(state, number, Broker())._replace(crashes=state.crashes + 1)
    for log in sorted({bounds.log_of(lane) for lane in LANES}):
        if not broker.sessions[log]:
            # The brokers are alike: X is the one that opens the first log.
            if state.openings < bounds.openings and (state.openings or not number):
                opened = _let_go(broker, log, state.openings + 1, bounds)
                after = _with(state, number, opened)
                yield f"opens log {log}", after._replace(openings=state.openings + 1)
            continue
        for what, one, lane, epoch in state.sent:
            if what == "produce" and lane in _lanes_of(log, bounds):
                yield from _produce(state, number, one, lane, epoch, bounds)
        if any(broker.held[lane] for lane in _lanes_of(log, bounds)):
            yield f"flushes log {log}", _write(state, number, log, {}, rules, bounds)
        yield from _settles(state, number, log, rules, bounds)
        yield from _writes(state, number, log, rules, bounds)
        yield from _marks(state, number, log, rules, bounds)


def _produce(
    state: State, number: int, one: int, lane: int, epoch: int, bounds: Bounds
) -> Iterator[Step]:
    broker, row, log = state.brokers[number], state.row, bounds.log_of(lane)
    there = (*state.lanes[lane], *broker.held[lane])
    what = f"{one} in {NAMES[lane]}"
    if any(not entry.ends and entry.transaction == one for entry in there):
        if (one, lane) not in state.acked:
            yield f"answers {what} again", state._replace(acked=state.acked | {(one, lane)})
        return
    turns = [turn for where, known, turn in broker.admitted if (where, known) == (lane, epoch)]
    if not turns:
        if row.epoch != epoch or row.state not in AT_REST + ONGOING:
            return
        if row.state != ONGOING:
            row = Row(epoch, ONGOING, row.ended, row.turn + 1)
        mine = log, broker.sessions[log]
        row = row._replace(places=row.places | {lane}, sessions=row.sessions | {mine})
        admitted = broker._replace(admitted=broker.admitted | {(lane, epoch, row.turn)})
        yield f"registers {what}", _with(state, number, admitted)._replace(row=row)
        return
    if all(entry.epoch <= epoch for entry in there):
        held = list(broker.held)
        held[lane] = (*held[lane], Entry(one, turns[0], "", epoch))
        after = _with(state, number, broker._replace(held=tuple(held)))
        yield f"holds {what}", after._replace(acked=state.acked | {(one, lane)})


def _settles(state: State, number: int, log: int, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    """What the owner of a log does about a transaction that is staged."""
    row, broker = state.row, state.brokers[number]
    lanes = [lane for lane in _lanes_of(log, bounds) if lane in row.places]
    if row.state != STAGED or not lanes:
        return
    mine = {(log, broker.sessions[log])}
    noted = {known for known in row.sessions if known[0] == log}
    is_same = noted == mine if rules.same_session else True
    if not bounds.one_log:
        if is_same and not noted <= row.kept:
            after = state
            if rules.kept_in_bucket:
                after = _write(state, number, log, {}, rules, bounds)
            voted = row._replace(kept=row.kept | noted)
            yield f"says that log {log} is kept", after._replace(row=voted)
        elif not is_same:
            yield f"says that log {log} is lost", state._replace(row=row._replace(state=ABORT))
        return
    is_there = all(outcome_in(state.lanes[lane], row.turn) for lane in lanes)
    if broker.plan is None and not (is_there and rules.first_marker_counts):
        planned = broker._replace(plan=(row.turn, COMMIT if is_same else ABORT, row.epoch))
        yield "reads that it is staged", _with(state, number, planned)


def _writes(state: State, number: int, log: int, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    """The markers of one log that a broker has decided on, whatever the row says by now."""
    broker = state.brokers[number]
    if broker.plan is None:
        return
    turn, outcome, epoch = broker.plan
    lanes = [lane for lane in LANES if not outcome_in(state.lanes[lane], turn)]
    if not rules.first_marker_counts:
        lanes = list(LANES)
    idle = broker._replace(plan=None)
    if not lanes:
        yield "has nothing to write", _with(state, number, idle)
    marker = Entry(0, turn, outcome, epoch)
    for some in [lanes] if rules.one_object else [[lane] for lane in lanes]:
        if some:
            rest = broker if set(some) < set(lanes) else idle
            after = _with(state, number, rest)
            after = _write(after, number, log, dict.fromkeys(some, marker), rules, bounds)
            yield f"writes {outcome} to {_names(some)}", after


def _marks(state: State, number: int, log: int, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    row = state.row
    for lane in _lanes_of(log, bounds):
        entries = state.lanes[lane]
        if row.state in (COMMIT, ABORT) and lane in row.places:
            if not outcome_in(entries, row.turn):
                marker = {lane: Entry(0, row.turn, row.state, row.epoch)}
                after = _write(state, number, log, marker, rules, bounds)
                yield f"marks {row.state} in {NAMES[lane]}", after
            continue
        epoch = open_epoch(entries)
        claims = row.epoch if row.state == ONGOING else row.ended
        is_claimed = row.state not in AT_REST and claims == epoch and lane in row.places
        if epoch >= 0 and not is_claimed:
            marker = {lane: Entry(0, -1 - len(entries), ABORT, epoch)}
            after = _write(state, number, log, marker, rules, bounds)
            yield f"finds no row for what is open in {NAMES[lane]}", after


def _names(lanes: Iterable[int]) -> str:
    return "".join(NAMES[lane] for lane in lanes)


# -- the metadata store is lost ------------------------------------------------------------------


def _rebuilt(state: State, bounds: Bounds) -> State:
    """Rule T16: commit markers are believed, the rest of what is open is aborted."""
    believed = {entry.turn for lane in state.lanes for entry in lane if entry.ends == COMMIT}
    lanes = []
    for entries in state.lanes:
        last = entries[-1] if entries else None
        if last is not None and not last.ends:
            outcome = COMMIT if last.turn in believed else ABORT
            entries = (*entries, Entry(0, _RECOVERED, outcome, 99))
        lanes.append(entries)
    return state._replace(
        row=Row(epoch=50, turn=_RECOVERED),
        lanes=tuple(lanes),
        brokers=(Broker(), Broker()),
        losses=state.losses + 1,
    )


# -- no client comes any more --------------------------------------------------------------------

_ALONE = (
    "X opens",
    "X reads",
    "X has",
    "X writes",
    "X says",
    "X marks",
    "X finds",
    "its time",
    "it is",
    "the chain",
)


def settle(state: State, rules: Rules, bounds: Bounds) -> str:
    """What one broker, freshly started, comes to by itself: everything must end."""
    alone = Bounds(bounds.transactions, bounds.one_log, 0, 99, 0, 99, gives_up=False)
    now = state._replace(
        brokers=(Broker(), Broker()),
        client=state.client._replace(phase="dead"),
        openings=10,
        timeouts=0,
    )
    for _ in range(40):
        for label, after in steps(now, rules, alone):
            if (label.startswith(_ALONE) or label == "all is kept") and after != now:
                now = after
                break
        else:
            is_over = now.row.state in AT_REST and all(
                open_epoch(entries) < 0 for entries in now.lanes
            )
            return judge(now, bounds) if is_over else HANGING
        if found := judge(now, bounds):
            return found
    return HANGING
