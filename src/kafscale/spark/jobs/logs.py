"""What the jobs that change logs begin with: the logs of the chosen topics, and their settings.

Next door: looking at one log (log/survey.py), abandoned tails (tails.py).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafscale.log import keys, manifest, survey
from kafscale.log.manifest import LaneMark
from kafscale.log.survey import Snapshot
from kafscale.model.errors import LogStopped
from kafscale.model.topic_configs import TOPIC_CONFIGS
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context, Report
from kafscale.spark.jobs import tails
from kafscale.spark.jobs.merge import LARGEST_TARGET
from kafscale.spark.jobs.rewriting import Tally


class LogFound(NamedTuple):
    """One log as it was when we looked."""

    topic: TopicDescriptor
    number: int
    found: Snapshot
    idle: bool  # its tail has been left alone for long enough


def look(context: Context, tail_idle_s: float = -1) -> list[LogFound]:
    """All logs of the chosen topics."""
    places = [
        (topic, number, keys.log_folder(topic.folder, number))
        for topic in context.chosen()
        for number in range(topic.logs)
    ]

    async def work(store: ObjectStore) -> tuple[int, list[Snapshot]]:
        now_ms = await store.now_ms()
        found = survey.gathered(survey.snapshot(store, folder) for _, _, folder in places)
        return now_ms, await found

    now_ms, snapshots = context.bucket.run(work)
    return [
        LogFound(topic, number, found, tails.is_idle(found, now_ms, tail_idle_s))
        for (topic, number, _), found in zip(places, snapshots, strict=True)
    ]


def roll_up_tails(bucket: Bucket, logs: Sequence[LogFound]) -> list[str]:
    """Make abandoned tails past; gives what could not be done, in words."""
    notes = []
    for row in logs:
        notes += row.found.problems
        if row.idle:
            try:
                tails.roll_up(bucket, row.found.folder)
            except LogStopped as stopped:
                notes.append(f"the tail was left alone: {stopped}")
    return notes


def as_if_rolled_up(row: LogFound) -> LogFound:
    """What the log will be once its idle tail is past: for plans that change nothing."""
    if not row.idle:
        return row
    found = row.found
    entries = [
        manifest.entry_of(
            piece.key.rpartition("/")[2],
            piece.base,
            piece.end,
            piece.content_id,
            piece.spans,
            has_index=False,
        )
        for piece in found.tail
    ]
    marks = {lane: LaneMark(start, end) for lane, (start, end) in found.lanes().items()}
    past = manifest.append_history(
        found.manifest, entries, found.end, found.tail[-1].content_id, marks
    )
    return row._replace(found=found._replace(manifest=past, tail=[]))


def settings_of(topic: TopicDescriptor) -> TopicSettings:
    """What the topic says of itself, with Kafscale's defaults for the rest."""
    return TopicSettings.of(topic.configs, TopicDefaults())


def config_of(topic: TopicDescriptor, name: str) -> str:
    """One setting as text, for those that only the pipeline heeds."""
    return topic.configs.get(name, TOPIC_CONFIGS[name].default).strip()


def target_of(topic: TopicDescriptor, target: int | None) -> int:
    """How large an object should become."""
    return min(target or settings_of(topic).segment_bytes, LARGEST_TARGET)


def in_bytes(context: Context, what: str) -> Callable[[int, int], None]:
    """Progress of a part of the job, in bytes."""
    return lambda done, total: context.progress(what, done, total, "B")


def finished(job: str, rows: list[dict[str, Any]], tally: Tally, notes: list[str]) -> Report:
    """The report of a job that rewrote something."""
    facts = {
        "objects_replaced": tally.inputs,
        "objects_written": tally.outputs,
        "bytes_read": tally.read_bytes,
        "bytes_written": tally.written_bytes,
        "groups_lost_to_others": tally.lost,
    }
    return Report(job, facts, rows, [*notes, *tally.problems], exit_code=1 if tally.problems else 0)
