"""The pipeline's tables, and starting its jobs. Both are children: `kafscale pipeline`.

Next door: what runs left in the bucket (jobs.py), the child (cli/console/commands.py).
"""

from typing import Any, Final

import msgspec
import structlog

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import (
    JobRequest,
    JobStarted,
    PipelineTable,
    PipelineTables,
)
from kafscale.console.call import ApiCall, Handlers, OwnCommands

logger = structlog.get_logger()

_STATUS_WITHIN_S: Final = 60.0
_JOB_WITHIN_S: Final = 6 * 3600.0


async def list_tables(call: ApiCall) -> PipelineTables:
    """Give how fresh each declared table is, by the bucket."""
    services = call.services
    now_ms = services.clock.now_ms()
    bucket, commands = services.bucket, services.commands
    if bucket is None or commands is None:
        unknown = {"items": services.no_bucket}
        return PipelineTables(items=[], runners=None, notes=[], as_of_ms=now_ms, unknown=unknown)
    topics = await bucket.topics()
    if not any(topic.table is not None for topic in topics.values()):
        return PipelineTables(items=[], runners=None, notes=[], as_of_ms=now_ms)

    async def ask() -> Any:
        return await _json(commands, ("pipeline", "status", "--json"))

    try:
        said = await bucket.remembered.get("tables", ask)
    except ApiRefusal as bad:
        unknown = {"items": bad.message}
        return PipelineTables(items=[], runners=None, notes=[], as_of_ms=now_ms, unknown=unknown)
    return PipelineTables(
        items=[_row(row) for row in said["rows"]],
        runners=said["runners"],
        notes=said["notes"],
        as_of_ms=now_ms,
    )


def _row(row: dict[str, Any]) -> PipelineTable:
    return PipelineTable(
        topic=row["topic"],
        format=row["format"],
        mode=row["mode"],
        state=row["state"],
        lag=row.get("lag"),
        age_s=row.get("age_s"),
        promised_s=row.get("promised_s"),
        last_run_s_ago=row.get("last_run_s_ago"),
        last_rows=row.get("last_rows"),
        money_day=row.get("usd_per_day"),
        table=row.get("table"),
    )


async def _json(commands: OwnCommands, words: tuple[str, ...]) -> Any:
    printed = [line async for line in commands.lines(words, _STATUS_WITHIN_S) if line is not None]
    return msgspec.json.decode(b"".join(printed))


async def start_job(call: ApiCall) -> JobStarted:
    """Start a job beside the console; its record in the bucket says what became of it."""
    services, wanted = call.services, call.body
    services.need_bucket()
    if services.commands is None:
        raise ApiRefusal("refused", "this console starts no jobs")
    if services.running_job:
        message = f"a job runs already: {services.running_job}"
        raise ApiRefusal("slow_down", message, retry_after_s=30)
    known = await services.need_bucket().topics()
    for topic in wanted.topics:
        if topic not in known:
            raise ApiRefusal("unknown_topic", f"there is no topic {topic}", field="topics")
    services.running_job = wanted.job
    services.background.spawn(_work(call, wanted), f"job {wanted.job}")
    return JobStarted(job=wanted.job, started_ms=services.clock.now_ms())


async def _work(call: ApiCall, wanted: JobRequest) -> None:
    services = call.services
    assert services.commands is not None, "it was asked before the job was started"
    words = ["pipeline", wanted.job, "--json"]
    for topic in wanted.topics:
        words += ["--topic", topic]
    try:
        async for _ in services.commands.lines(tuple(words), _JOB_WITHIN_S):
            pass  # the report is in the bucket, too
    except ApiRefusal as bad:
        logger.warning("console_job_failed", job=wanted.job, error=bad.message)
    finally:
        services.running_job = ""


HANDLERS: Final[Handlers] = {"list_tables": list_tables, "start_job": start_job}
