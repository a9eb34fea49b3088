"""SQL over topics, where the settings allow it: a child process runs Spark.

Next door: what a query may do (spark/source/closed_sql.py), the child (cli/console/commands.py).
"""

from typing import Any, Final

import msgspec

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import SqlColumns, SqlEnd, SqlRequest, SqlRows
from kafscale.console.call import ApiCall, EventStream, Handlers

_MOST_ROWS: Final = 1000
_WITHIN_S: Final = 300.0
_ROWS_AT_ONCE: Final = 100
_LONGEST_CELL: Final = 64 << 10
_LOCAL: Final = ("--master", "local[1]", "--conf", "spark.driver.memory=1g")


async def run_sql(call: ApiCall) -> EventStream:
    """Run a query; the stream begins at once, the first row takes as long as Spark to start."""
    services = call.services
    if not services.has_sql:
        raise ApiRefusal("refused", "SQL is off: console.sql turns it on")
    if services.is_querying:
        raise ApiRefusal("slow_down", "another query runs already", retry_after_s=10)
    return _events(call, call.body)


async def _events(call: ApiCall, request: SqlRequest) -> EventStream:
    services = call.services
    assert services.commands is not None, "where SQL is on, there are commands"
    began_s = services.clock.elapsed_s()
    columns: list[str] = []
    waiting: list[list[str | None]] = []
    count = 0
    services.is_querying = True
    lines = services.commands.lines(
        ("sql", request.text, "--only-topics", "--output", "json",
         "--rows", str(_MOST_ROWS), *_LOCAL), _WITHIN_S,
    )  # fmt: skip
    try:
        async for line in lines:
            if line is None or len(waiting) >= _ROWS_AT_ONCE:
                yield ("rows", SqlRows(rows=waiting)) if waiting else None
                waiting = []
            if line is None:
                continue
            row = msgspec.json.decode(line)
            if not columns:
                columns = list(row)
                yield "columns", SqlColumns(columns=columns)
            waiting.append([_cell(row.get(name)) for name in columns])
            count += 1
        if waiting:
            yield "rows", SqlRows(rows=waiting)
        seconds = round(services.clock.elapsed_s() - began_s, 3)
        yield "end", SqlEnd(seconds=seconds, rows=count, cut=count >= _MOST_ROWS)
    finally:
        await lines.aclose()  # type: ignore[attr-defined]  # it is a generator
        services.is_querying = False


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:_LONGEST_CELL]


HANDLERS: Final[Handlers] = {"run_sql": run_sql}
