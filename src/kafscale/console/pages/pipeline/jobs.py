"""Runs of the pipeline's jobs, as they leave them in the bucket.

A run is an object when it begins, and when it has ended a second one with its report. Next door:
the names (log/formats/keys.py), who writes them (spark/run_records.py).
"""

import re
from typing import Any, Final

import msgspec

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.store_shapes import JobList, JobPage, JobSummary
from kafscale.console.bucket import ConsoleBucket
from kafscale.console.call import ApiCall, Handlers
from kafscale.log.formats import keys
from kafscale.model.errors import ObjectMissing

_NAME: Final = re.compile(
    r"(?P<job>[\w.-]+)/(?P<run>(?P<started>\d{1,20})-[0-9a-f]+)(?P<end>-end)?"
)
_RUN: Final = re.compile(r"[\w.-]+:\d{1,20}-[0-9a-f]+")
_MOST_READ: Final = 100
_LOST_MS: Final = 24 * 3600 * 1000  # a run without an end for so long was killed


async def list_jobs(call: ApiCall) -> JobList:
    """Give the newest runs."""
    bucket = call.services.bucket
    if bucket is None:
        return JobList(items=[], unknown={"items": call.services.no_bucket})
    folder = keys.runs_folder(bucket.namespace, "")
    listed = await bucket.store.find(folder)
    runs: dict[str, tuple[int, bool]] = {}
    for row in listed:
        match = _NAME.fullmatch(row.key[len(folder) + 1 :])
        if match is None or call.query.job not in ("", match["job"]):
            continue
        name = f"{match['job']}:{match['run']}"
        has_ended = runs.get(name, (0, False))[1] or match["end"] is not None
        runs[name] = int(match["started"]), has_ended
    newest = sorted(runs, key=lambda name: -runs[name][0])[:_MOST_READ]
    now_ms = call.services.clock.now_ms()
    items = [await _summary(bucket, name, *runs[name], now_ms) for name in newest]
    return JobList(items=items)


async def get_job(call: ApiCall) -> JobPage:
    """Give one run with its report."""
    bucket, name = call.services.need_bucket(), call.path["run"]
    if not _RUN.fullmatch(name):
        raise ApiRefusal("unknown_job", "there is no such run")
    key = _key(bucket, name)
    started = int(name.rpartition(":")[2].partition("-")[0])
    report = await _read(bucket, f"{key}-end")
    begun = report if report is not None else await _read(bucket, key)
    if begun is None:
        raise ApiRefusal("unknown_job", "there is no such run")
    now_ms = call.services.clock.now_ms()
    return JobPage(
        run=await _summary(bucket, name, started, report is not None, now_ms), report=begun
    )


def _key(bucket: ConsoleBucket, name: str) -> str:
    job, _, run = name.partition(":")
    return f"{keys.runs_folder(bucket.namespace, job)}/{run}"


async def _read(bucket: ConsoleBucket, key: str) -> Any:
    try:
        return msgspec.json.decode(await bucket.store.read(key))
    except (ObjectMissing, msgspec.DecodeError):
        return None


async def _summary(
    bucket: ConsoleBucket, name: str, started: int, has_ended: bool, now_ms: int
) -> JobSummary:
    report = await _read(bucket, _key(bucket, name) + ("-end" if has_ended else ""))
    said: dict[str, Any] = report if isinstance(report, dict) else {}
    state: Any = "running" if now_ms - started < _LOST_MS else "lost"
    if has_ended:
        state = "done" if said.get("ok") else "failed"
    facts = said.get("facts") if isinstance(said.get("facts"), dict) else {}
    plain = (str, int, float, bool, type(None))
    shown = {key: value for key, value in (facts or {}).items() if isinstance(value, plain)}
    if said.get("error"):
        shown["error"] = str(said["error"])
    return JobSummary(
        id=name,
        job=name.partition(":")[0],
        started_ms=started,
        ended_ms=said.get("ended_ms") if isinstance(said.get("ended_ms"), int) else None,
        state=state,
        exit_code=None if not has_ended else 0 if said.get("ok") else 1,
        facts=shown,
    )


HANDLERS: Final[Handlers] = {"list_jobs": list_jobs, "get_job": get_job}
