"""Brokers: the fleet, the logs that each owns, one broker's settings.

Next door: what is read off their pages (watch/reading.py).
"""

from typing import Final

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import (
    BrokerConfigRow,
    BrokerPage,
    BrokerSummary,
    FleetPage,
    LogRow,
    MoveRow,
    Unknown,
)
from kafscale.console.call import ApiCall, Handlers, Services
from kafscale.console.pages.topics.topics import known_layouts
from kafscale.console.watch import reading as page
from kafscale.console.watch.watcher import WatchedBroker

_MOST_LOGS: Final = 500


async def get_fleet(call: ApiCall) -> FleetPage:
    """Give all brokers and their logs."""
    services = call.services
    watcher = services.watcher
    if watcher.why and not watcher.view.nodes:
        raise ApiRefusal("broker", watcher.why)
    brokers = broker_rows(services)
    logs = [row for number in watcher.brokers for row in log_rows(services, number)]
    logs.sort(key=lambda row: (-(row.puts_per_s or 0.0), row.log))
    readings = watcher.readings
    generations = [int(one.single[page.GENERATION]) for one in readings
                   if page.GENERATION in one.single]  # fmt: skip
    unread = watcher.unread()
    unknown: Unknown = {"logs": unread} if unread else {}
    return FleetPage(
        as_of_ms=watcher.as_of_ms,
        cluster_id=watcher.view.cluster_id,
        generation=max(generations, default=None),
        controller=watcher.view.controller,
        hand_overs=int(sum(one.single.get(page.HANDOVERS, 0) for one in readings))
        if readings
        else None,
        brokers=brokers,
        logs=logs[:_MOST_LOGS],
        logs_total=len(logs),
        moves=await _moves(services),
        unknown=unknown,
    )


async def _moves(services: Services) -> list[MoveRow]:
    """Topics on their way, by their descriptors; which phase each is in, brokers only count."""
    layouts, _ = await known_layouts(services)
    phases = {phase for one in services.watcher.readings for phase in one.moves}
    phase = next(iter(phases)) if len(phases) == 1 else " or ".join(sorted(phases)) or "begun"
    return [
        MoveRow(topic=name, phase=phase, to=one.moving.layout)
        for name, one in sorted(layouts.items())
        if one.moving is not None
    ]


async def get_broker(call: ApiCall) -> BrokerPage:
    """Give one broker with its settings."""
    text = call.path["broker"]
    watcher = call.services.watcher
    number = int(text) if text.isdecimal() and len(text) < 12 else -1
    state = watcher.brokers.get(number)
    if state is None:
        raise ApiRefusal("unknown_broker", f"there is no broker {text}")
    row = next(one for one in broker_rows(call.services) if one.id == number)
    return BrokerPage(
        broker=row,
        configs=[
            BrokerConfigRow(
                name=one.name, value=one.value, source=one.source, read_only=one.is_read_only
            )
            for one in state.said.settings
        ],
        logs=log_rows(call.services, number)[:_MOST_LOGS],
    )


def broker_rows(services: Services) -> list[BrokerSummary]:
    """Every broker that clients are told of."""
    watcher = services.watcher
    leaders: dict[int, int] = {}
    for partitions in watcher.view.leaders.values():
        for leader in partitions.values():
            leaders[leader] = leaders.get(leader, 0) + 1
    return [
        _row(
            services,
            node.broker,
            f"{node.host}:{node.port}",
            node.rack,
            leaders.get(node.broker, 0),
        )
        for node in watcher.view.nodes
    ]


def _row(
    services: Services, number: int, address: str, rack: str | None, leaders: int
) -> BrokerSummary:
    watcher = services.watcher
    state = watcher.brokers.get(number)
    reading = state.reading if state is not None else None
    unknown: Unknown = {}
    if reading is None:
        why = (state.why if state is not None else "") or "its page was not read yet"
        names = ("ready", "up_s", "logs", "groups", "connections", "cpu", "memory_bytes")
        unknown = dict.fromkeys(names, why)
    single = reading.single if reading is not None else {}
    return BrokerSummary(
        id=number,
        address=address,
        rack=rack,
        controller=number == watcher.view.controller,
        ready=_is_ready(state),
        reasons=(state.reasons or []) if state is not None else [],
        version=state.said.version if state is not None else None,
        features=list(state.said.features) if state is not None else [],
        up_s=reading.at_s - reading.started_s if reading and reading.started_s else None,
        leaders=leaders,
        logs=_whole(single.get(page.LOGS_OWNED)),
        groups=reading.groups if reading is not None else None,
        connections=_whole(single.get(page.CONNECTIONS)),
        cpu=state.window.rates().get((page.CPU,)) if state is not None else None,
        memory_bytes=_whole(single.get(page.MEMORY)),
        unknown=unknown,
    )


def _is_ready(state: WatchedBroker | None) -> bool | None:
    return None if state is None or state.reasons is None else not state.reasons


def log_rows(services: Services, number: int) -> list[LogRow]:
    """The logs that a broker shows as its own."""
    state = services.watcher.brokers[number]
    if state.reading is None:
        return []
    rates = state.window.rates()
    return [
        LogRow(
            log=f"{topic}/{log}",
            owner=number,
            lanes=figures.get("lanes"),
            end=str(figures["end"]) if "end" in figures else None,
            tail_objects=figures.get("tail_objects"),
            live_bytes=figures.get("live_bytes"),
            dead_bytes=figures.get("dead_bytes"),
            puts_per_s=rates.get((page.LOG_PUTS, topic, log), 0.0) if rates else None,
        )
        for (topic, log), figures in sorted(state.reading.logs.items())
    ]


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


HANDLERS: Final[Handlers] = {"get_fleet": get_fleet, "get_broker": get_broker}
