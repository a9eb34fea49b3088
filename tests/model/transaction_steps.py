"""The steps of a transaction: client, coordinator, the brokers that own logs, a lost store.

In this room: every step that may follow a state, and what brokers come to by themselves.
Next door: the state, and what must never be (transaction_state.py).

Any broker may make any transition of the row, so the coordinator has no name. Brokers X and Y both
take themselves for the owner of both lanes. They are alike: a state in which they have changed
places counts as the same, so a trace may change their names.
"""

from collections.abc import Iterator
from typing import TypeVar

from tests.model.explore import explore
from tests.model.search import Result
from tests.model.transaction_state import (
    ABORT,
    AT_REST,
    COMMIT,
    EMPTY,
    EPOCHS,
    HANGING,
    LANES,
    NAMES,
    ONGOING,
    Bounds,
    Broker,
    Client,
    Marker,
    Plan,
    Record,
    Row,
    Rules,
    State,
    has_marker,
    initial,
    judge,
    last_turn,
    open_at,
    open_records,
    producer_of,
    violation,
)

Step = tuple[str, State]
T = TypeVar("T")
NOTHING: frozenset[int] = frozenset()


def search(rules: Rules, bounds: Bounds, limit: int = 2_000_000) -> Result:
    """Look for a broken promise, and for states that the brokers alone cannot end."""
    settled: set[tuple[Row, object, object]] = set()

    def at_rest(state: State) -> str:
        seen = state.row, state.lanes, state.believed
        if seen in settled:
            return ""
        settled.add(seen)
        return settle(state, rules, bounds)

    return explore(
        initial(),
        lambda state: successors(state, rules, bounds),
        lambda before, _, after: violation(before, after),
        limit,
        at_rest,
    )


def successors(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    for label, after in _steps(state, rules, bounds):
        one, two = after.brokers
        if hash(two) < hash(one):
            after = after._replace(brokers=(two, one))
        if after != state:
            yield label, after


def _steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    yield from _client(state, rules, bounds)
    yield from _ends(state, rules, bounds)
    yield from _time(state, rules, bounds)
    if not bounds.raises_epoch:
        yield from _registrations(state, bounds)
    for number in (0, 1):
        yield from _broker(state, number, rules, bounds)
    if state.losses < bounds.losses:
        yield "the metadata store is lost and rebuilt", _rebuilt(state, rules)


# -- the client ----------------------------------------------------------------------------------


def _client(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    client = state.client
    if client.phase == "init":
        yield from _init(state, rules, bounds)
    elif client.phase == "begin":
        what = "produce" if bounds.raises_epoch else "add"
        lanes = bounds.lanes_of[client.transaction - 1]
        sent = {(what, client.transaction, lane, client.epoch, "") for lane in lanes}
        after = state._replace(client=client._replace(phase="sent"), sent=state.sent | sent)
        yield f"the client sends {client.transaction}", after
    elif client.phase == "sent":
        yield from _produces(state, client, bounds)
        for label, changed, asked in _asks(state, client, bounds):
            yield f"the client {label}", state._replace(client=changed, sent=state.sent | {asked})
    if bounds.second_instance and client.instance == 1 and client.phase in ("sent", "ends"):
        second = Client(client.transaction + 1, "init", -1, 2)
        yield "a second instance starts", state._replace(client=second, zombie=client)
    if state.zombie is not None and state.zombie.phase == "sent":
        for label, changed, asked in _asks(state, state.zombie, bounds):
            yield f"the zombie {label}", state._replace(zombie=changed, sent=state.sent | {asked})


def _produces(state: State, client: Client, bounds: Bounds) -> Iterator[Step]:
    """A client of the older protocol writes where its registration was answered."""
    for lane in () if bounds.raises_epoch else bounds.lanes_of[client.transaction - 1]:
        message = "produce", client.transaction, lane, client.epoch, ""
        if (client.transaction, lane) in state.added and message not in state.sent:
            label = f"the client writes {client.transaction} to {NAMES[lane]}"
            yield label, state._replace(sent=state.sent | {message})


def _asks(
    state: State, client: Client, bounds: Bounds
) -> Iterator[tuple[str, Client, tuple[str, int, int, int, str]]]:
    number = client.transaction
    stored = all((number, lane) in state.stored for lane in bounds.lanes_of[number - 1])
    for outcome, may in ((COMMIT, stored), (ABORT, bounds.gives_up)):
        if may:
            asks = client._replace(phase="ends", wants=outcome)
            yield f"asks for {outcome}{number}", asks, ("end", number, -1, client.epoch, outcome)


def _init(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    row, client = state.row, state.client
    if row.state == ONGOING and rules.instance_waits:
        yield (
            "the new instance aborts the old one's",
            state._replace(row=_decided(row, ABORT, raises=True)),
        )
    elif row.state == ONGOING or row.state in AT_REST:
        raised = row._replace(epoch=row.epoch + 1, state=EMPTY, places=NOTHING)
        begins = client._replace(phase="begin", epoch=raised.epoch)
        yield f"it gets epoch {raised.epoch}", state._replace(row=raised, client=begins)


# -- the row -------------------------------------------------------------------------------------


def _decided(row: Row, outcome: str, *, raises: bool) -> Row:
    return row._replace(epoch=row.epoch + raises, state=outcome, ended=row.epoch)


def _ends(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    row = state.row
    for what, number, _, epoch, outcome in state.sent:
        if what != "end" or (not bounds.late_end and number < state.client.transaction):
            continue
        name = f"EndTxn {outcome}{number}"
        if row.state == ONGOING and row.epoch == epoch:
            decided = _decided(row, outcome, raises=bounds.raises_epoch)
            after = state._replace(row=decided)
            if not rules.acknowledged_when_done:
                after = _tell(after, number, outcome, bounds)
            yield f"{name} is decided", after
            yield from _decided_badly(state, number, outcome, rules, bounds)
        elif row.ended == epoch and row.epoch == epoch + bounds.raises_epoch:
            if row.state == outcome.lower() and (number, outcome) not in state.told:
                yield f"{name} is answered", _tell(state, number, outcome, bounds)
            elif row.state.upper() != outcome:
                yield f"{name} is refused", _refuse(state, number)
        elif row.state in AT_REST and row.epoch == epoch and bounds.raises_epoch:
            if outcome == ABORT:
                raised = row._replace(epoch=epoch + 1, state="a", ended=epoch, places=NOTHING)
                after = _tell(state._replace(row=raised), number, ABORT, bounds)
                yield f"{name} ends nothing", after
        elif row.epoch != epoch or row.state == EMPTY:
            yield f"{name} is fenced", _refuse(state, number)


def _decided_badly(
    state: State, number: int, outcome: str, rules: Rules, bounds: Bounds
) -> Iterator[Step]:
    row = state.row
    for at, broker in enumerate(state.brokers):
        if not rules.row_compared and broker.held is None:
            held = broker._replace(held=(row, outcome, number))
            yield f"{'XY'[at]} reads the row for EndTxn", _with(state, at, held)
        if not rules.decision_read:
            plan = Plan(row.turn, outcome, row.epoch + bounds.raises_epoch)
            plans = tuple(
                plan if lane in row.places and old is None else old
                for lane, old in zip(LANES, broker.plans, strict=True)
            )
            yield f"{'XY'[at]} marks at once", _with(state, at, broker._replace(plans=plans))


def _tell(state: State, number: int, outcome: str, bounds: Bounds) -> State:
    told = state._replace(told=state.told | {(number, outcome)})
    client = state.client
    if (client.transaction, client.phase, client.wants) != (number, "ends", outcome):
        return told
    if number >= bounds.transactions:
        return told._replace(client=client._replace(phase="finished"))
    # Clients of the older protocol that gave up ask for another epoch first.
    phase = "init" if outcome == ABORT and not bounds.raises_epoch else "begin"
    after = Client(number + 1, phase, state.row.epoch, client.instance)
    return told._replace(client=after)


def _refuse(state: State, number: int) -> State:
    client = state.client
    if client.transaction != number or client.phase != "ends":
        return state
    return state._replace(client=client._replace(phase="dead"))


def _time(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    row = state.row
    if row.state == ONGOING and state.timeouts < bounds.timeouts:
        late = state._replace(row=_decided(row, ABORT, raises=True), timeouts=state.timeouts + 1)
        yield "its time is over", late
    if row.state in (COMMIT, ABORT):
        marked = all(has_marker(state.lanes[lane], row) for lane in _to_mark(state, rules))
        if marked or not rules.done_when_all_marked:
            done = row._replace(state=row.state.lower(), places=NOTHING)
            if rules.offsets_before_done:
                done = done._replace(offsets=row.turn)
            yield "it is done", state._replace(row=done)
    for at, broker in enumerate(state.brokers):
        if broker.held is not None:
            old, outcome, number = broker.held
            written = _decided(old, outcome, raises=bounds.raises_epoch)
            after = _with(state, at, broker._replace(held=None))._replace(row=written)
            yield f"{'XY'[at]} writes what it decided for {number}", after


def _to_mark(state: State, rules: Rules) -> Iterator[int]:
    producer = producer_of(state.row.epoch)
    for lane in state.row.places:
        if rules.every_lane_marked or open_at(state.lanes[lane], producer) >= 0:
            yield lane


def _registered(row: Row, lane: int) -> Row:
    if row.state == ONGOING:
        return row._replace(places=row.places | {lane})
    return row._replace(state=ONGOING, places=frozenset({lane}), turn=row.turn + 1)


def _registrations(state: State, bounds: Bounds) -> Iterator[Step]:
    row = state.row
    for what, number, lane, epoch, _ in state.sent:
        if what != "add" or row.epoch != epoch or row.state not in AT_REST + ONGOING:
            continue
        # A registration that comes late begins a transaction; the bound ends that.
        if row.state == ONGOING or row.turn < bounds.turns:
            added = state.added | {(number, lane)}
            after = state._replace(row=_registered(row, lane), added=added)
            yield f"{NAMES[lane]} is registered for {number}", after


# -- the brokers ---------------------------------------------------------------------------------


def _with(state: State, number: int, broker: Broker) -> State:
    one, two = state.brokers
    return state._replace(brokers=(broker, two) if number == 0 else (one, broker))


def _set(row: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*row[:at], value, *row[at + 1 :])


def _let_go(broker: Broker, lane: int, rules: Rules, bounds: Bounds, *, knows: bool) -> Broker:
    """What a broker knows of a lane after it has opened it, or lost it."""
    admitted = broker.admitted
    if rules.registration_forgotten:
        admitted = frozenset(row for row in admitted if row[0] != lane)
    plans = broker.plans if bounds.remembers else _set(broker.plans, lane, None)
    return broker._replace(knows=_set(broker.knows, lane, knows), admitted=admitted, plans=plans)


def _append(
    state: State, number: int, lane: int, entry: Record | Marker, rules: Rules, bounds: Bounds
) -> State:
    other = 1 - number
    lost = _let_go(state.brokers[other], lane, rules, bounds, knows=False)
    lanes = _set(state.lanes, lane, (*state.lanes[lane], entry))
    return _with(state, other, lost)._replace(lanes=lanes)


def _broker(state: State, number: int, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    broker, name = state.brokers[number], "XY"[number]
    if state.crashes < bounds.crashes and broker != Broker():
        crashed = _with(state, number, Broker())
        yield f"{name} crashes", crashed._replace(crashes=state.crashes + 1)
    for lane in LANES:
        if not broker.knows[lane]:
            opened = _let_go(broker, lane, rules, bounds, knows=True)
            yield f"{name} opens {NAMES[lane]}", _with(state, number, opened)
            continue
        for what, one, where, epoch, _ in state.sent:
            if what == "produce" and where == lane:
                for label, after in _produce(state, number, one, lane, epoch, rules, bounds):
                    yield f"{name} {label}", after
        for label, after in _markers(state, number, lane, rules, bounds):
            yield f"{name} {label}", after


def _produce(
    state: State, number: int, one: int, lane: int, epoch: int, rules: Rules, bounds: Bounds
) -> Iterator[Step]:
    broker, row, entries = state.brokers[number], state.row, state.lanes[lane]
    what = f"{one} in {NAMES[lane]}"
    goes_on = row.epoch == epoch and row.state in AT_REST + ONGOING
    if any(isinstance(entry, Record) and entry.transaction == one for entry in entries):
        if (one, lane) not in state.stored:
            yield f"answers {what} again", state._replace(stored=state.stored | {(one, lane)})
        if not rules.registered_first and goes_on and lane not in row.places:
            yield f"registers {what} late", state._replace(row=_registered(row, lane))
        return
    turns = [turn for where, known, turn in broker.admitted if (where, known) == (lane, epoch)]
    if not turns:
        admits = row.epoch == epoch and row.state == ONGOING and lane in row.places
        if bounds.raises_epoch and goes_on:
            row, admits = _registered(row, lane), True
        if admits or not rules.registered_first:
            admitted = broker.admitted | {(lane, epoch, row.turn)}
            after = _with(state, number, broker._replace(admitted=admitted))
            if admits:
                yield f"registers {what}", after._replace(row=row)
            if not rules.registered_first:
                yield f"takes {what} without asking", after
        return
    if _fits(state, one, lane, epoch, rules, bounds):
        after = _append(state, number, lane, Record(one, epoch, turns[0]), rules, bounds)
        yield f"stores {what}", after._replace(stored=state.stored | {(one, lane)})


def _fits(state: State, one: int, lane: int, epoch: int, rules: Rules, bounds: Bounds) -> bool:
    """What the lane's own table says: epochs do not fall, and numbers follow each other."""
    entries, producer = state.lanes[lane], producer_of(epoch)
    mine = [entry for entry in entries if producer_of(entry.epoch) == producer]
    if any(entry.epoch > epoch for entry in mine):
        return False
    at = open_at(entries, producer)
    if rules.older_one_first and at >= 0 and entries[at].epoch < epoch:
        return False
    if bounds.raises_epoch:
        return True
    there = sum(isinstance(entry, Record) and entry.epoch == epoch for entry in mine)
    before = sum(("produce", k, lane, epoch, "") in state.sent for k in range(1, one))
    return there == before


def _markers(state: State, number: int, lane: int, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    broker, row, entries = state.brokers[number], state.row, state.lanes[lane]
    plan = broker.plans[lane]
    if plan is not None:
        yield (
            f"writes {plan.outcome} to {NAMES[lane]}",
            _written(state, number, lane, plan, rules, bounds),
        )
        return
    wanted = row.state in (COMMIT, ABORT) and lane in _to_mark(state, rules)
    if wanted and not has_marker(entries, row):
        plans = _set(broker.plans, lane, Plan(row.turn, row.state, row.epoch))
        label = f"reads {row.state} for {NAMES[lane]}"
        yield label, _with(state, number, broker._replace(plans=plans))
    for at in open_records(entries) if rules.unclaimed_aborted else ():
        found = entries[at]
        claims = row.epoch if row.state == ONGOING else row.ended
        same = producer_of(row.epoch) == producer_of(found.epoch) and claims == found.epoch
        if same and lane in row.places:
            continue
        producer = producer_of(found.epoch)
        plan = Plan(last_turn(entries, producer), ABORT, found.epoch, at)
        if (producer, found.turn) in state.believed:
            plan = plan._replace(turn=found.turn, outcome=COMMIT)
        plans = _set(broker.plans, lane, plan)
        label = f"finds no row for what is open in {NAMES[lane]}"
        yield label, _with(state, number, broker._replace(plans=plans))


def _written(
    state: State, number: int, lane: int, plan: Plan, rules: Rules, bounds: Bounds
) -> State:
    broker, entries = state.brokers[number], state.lanes[lane]
    producer = producer_of(plan.epoch)
    done = broker._replace(plans=_set(broker.plans, lane, None))
    if plan.judged >= 0:
        is_old = rules.judged_one_ended and open_at(entries, producer) != plan.judged
    else:
        is_old = rules.turns_rise and plan.turn <= last_turn(entries, producer)
    if is_old:
        return _with(state, number, done)
    if rules.registration_forgotten:
        admitted = frozenset(row for row in done.admitted if row[0] != lane)
        done = done._replace(admitted=admitted)
    marker = Marker(plan.turn, plan.outcome, plan.epoch)
    return _append(_with(state, number, done), number, lane, marker, rules, bounds)


# -- the metadata store is lost ------------------------------------------------------------------


def _rebuilt(state: State, rules: Rules) -> State:
    """Brokers stop; the store knows what the bucket tells, and an older row."""
    row = state.row
    if rules.all_fenced:
        fresh = Row((producer_of(row.epoch) + 1) * EPOCHS, EMPTY, -1, NOTHING, 0, 0)
    else:
        old = row.epoch if row.state == ONGOING else row.ended
        fresh = Row(max(old, 0), EMPTY, -1, NOTHING, row.turn + 10, 0)
    committed = {
        (producer_of(entry.epoch), entry.turn)
        for lane in state.lanes
        for entry in lane
        if isinstance(entry, Marker) and entry.outcome == COMMIT
    }
    return state._replace(
        row=fresh,
        brokers=(Broker(), Broker()),
        believed=frozenset(committed) if rules.markers_believed else frozenset(),
        losses=state.losses + 1,
    )


# -- no client comes any more --------------------------------------------------------------------

_ALONE = ("X opens", "X reads", "X finds", "X writes", "its time", "it is done")


def settle(state: State, rules: Rules, bounds: Bounds) -> str:
    """What one broker, freshly started, comes to by itself: everything must end."""
    bounds = Bounds(timeouts=99, raises_epoch=bounds.raises_epoch, remembers=bounds.remembers)
    now = state._replace(
        brokers=(Broker(), Broker()),
        client=state.client._replace(phase="dead"),
        zombie=None,
        timeouts=0,
    )
    for _ in range(40):
        for label, after in _steps(now, rules, bounds):
            if label.startswith(_ALONE) and after != now:
                now = after
                break
        else:
            return judge(now, is_final=True)
    return HANGING
