"""Numbers over time: of a day from the console's own history, of weeks from Prometheus."""

from functools import partial
from typing import Final, get_args
from urllib.parse import urlsplit

import msgspec

from kafscale.admin.cost.range_query import query_range
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import SeriesAnswer, SeriesLine, SeriesName
from kafscale.console.call import ApiCall, Handlers
from kafscale.console.routes import SeriesQuery
from kafscale.console.watch import long_history
from kafscale.console.watch.history import HistoryLine

_NAMES: Final = frozenset(get_args(SeriesName))
_MOST_LINES: Final = 200


async def get_series(call: ApiCall) -> SeriesAnswer:
    """Give the lines that were asked for."""
    query: SeriesQuery = call.query
    names = [name for name in query.names.split(",") if name]
    strange = [name for name in names if name not in _NAMES]
    if strange or not names:
        raise ApiRefusal("invalid", f"there is no series {strange[:1]}", field="names")
    try:
        labels = msgspec.json.decode(query.labels, type=dict[str, str]) if query.labels else {}
    except msgspec.DecodeError as bad:
        raise ApiRefusal("invalid", f"expected a JSON object: {bad}", field="labels") from bad
    watcher = call.services.watcher
    now_s = (watcher.as_of_ms or call.services.clock.now_ms()) / 1000
    if query.span in long_history.SPANS_S:
        moments, step_s, lines = await _ask_prometheus(call, now_s, names, labels)
    else:
        moments, step_s, lines = watcher.history.read(now_s, query.span, names, labels)
    if len(lines) > _MOST_LINES:
        raise ApiRefusal("too_large", f"{len(lines)} lines; name labels to get fewer")
    return SeriesAnswer(
        t=moments,
        step_s=step_s,
        lines=[
            SeriesLine(name=line.name, labels=line.labels, v=line.values)  # type: ignore[arg-type]
            for line in lines
        ],
    )


async def _ask_prometheus(
    call: ApiCall, now_s: float, names: list[str], labels: dict[str, str]
) -> tuple[list[int], int, list[HistoryLine]]:
    services = call.services
    server = services.prometheus
    if not server:
        raise ApiRefusal("invalid", "console.prometheus names no server to ask", field="span")
    at_s, step_s = long_history.moments(now_s, call.query.span)
    instances = {
        str(number): urlsplit(state.said.page).netloc
        for number, state in services.watcher.brokers.items()
        if state.said.page
    }
    lines: list[HistoryLine] = []
    for name in names:
        text = long_history.expression(name, labels, instances, step_s)
        if text is None:
            continue
        found = await services.cluster.run(
            partial(query_range, server, text, at_s[0], at_s[-1], step_s)
        )
        lines += long_history.lines_of(name, found, instances, at_s)
    return [moment * 1000 for moment in at_s], step_s, lines


HANDLERS: Final[Handlers] = {"get_series": get_series}
