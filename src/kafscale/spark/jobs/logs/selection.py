"""What the jobs that change logs begin with: the logs of the chosen topics, and their settings.

Next door: reading one log (log/protocol/survey.py), abandoned tails (idle_tails.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafscale.log.formats import keys, manifest, places
from kafscale.log.formats.manifest import LaneMark
from kafscale.log.protocol import survey
from kafscale.log.protocol.survey import LogSnapshot
from kafscale.model.errors import LogStopped
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings
from kafscale.objects.store import ObjectStore
from kafscale.spark.bucket import Bucket
from kafscale.spark.job import Context
from kafscale.spark.jobs.logs import idle_tails

SHARED: Final = "@shared"  # what reports call the logs that are no single topic's


class ChosenLog(NamedTuple):
    """A log, and the chosen topics that have partitions in it."""

    folder: str
    topic: TopicDescriptor | None  # the owner of all lanes; None: topics share the log
    lanes: Mapping[int, TopicDescriptor]  # of a shared log: the lanes of the chosen topics

    @property
    def name(self) -> str:
        """What reports call it."""
        return SHARED if self.topic is None else self.topic.name

    @property
    def number(self) -> int:
        """Its number in its folder."""
        return places.number_of(self.folder)

    def of(self, lane: int) -> TopicDescriptor | None:
        """The chosen topic that has a lane; None: the job must not touch the lane."""
        return self.lanes.get(lane) if self.topic is None else self.topic

    @property
    def settings(self) -> TopicSettings:
        """What holds for the log as a whole: no single topic's settings where it is shared."""
        return TopicSettings.of({} if self.topic is None else self.topic.configs, TopicDefaults())


class FoundLog(NamedTuple):
    """One log as it was when the job read it."""

    whose: ChosenLog
    snapshot: LogSnapshot
    idle: bool  # its tail has been left alone for long enough


def find_logs(context: Context, tail_idle_s: float = -1) -> list[FoundLog]:
    """All logs of the chosen topics, each once."""
    chosen = chosen_logs(context)

    async def work(store: ObjectStore) -> tuple[int, list[LogSnapshot]]:
        now_ms = await store.now_ms()
        looks = survey.await_limited(survey.take_snapshot(store, row.folder) for row in chosen)
        return now_ms, await looks

    now_ms, snapshots = context.bucket.run(work)
    return [
        FoundLog(row, seen, idle_tails.is_idle(seen, now_ms, tail_idle_s))
        for row, seen in zip(chosen, snapshots, strict=True)
    ]


def chosen_logs(context: Context) -> list[ChosenLog]:
    """The logs of the chosen topics; if none is named, also shared logs without a topic."""
    chosen = context.chosen()
    rows = [
        ChosenLog(folder, topic, {})
        for topic in chosen
        if topic.layout != "shared"
        for folder in places.own_folders(topic)
    ]
    shared: dict[str, dict[int, TopicDescriptor]] = {}
    if not context.topics:
        shared = {folder: {} for folder in shared_folders(context.bucket)}
    for topic in chosen:
        if topic.layout == "shared":
            for _, place in places.each_place(topic):
                shared.setdefault(place.folder, {})[place.lane] = topic
    return rows + [ChosenLog(folder, None, shared[folder]) for folder in sorted(shared)]


def shared_folders(bucket: Bucket) -> list[str]:
    """The shared logs that have objects."""
    folder = keys.shared_folder(bucket.namespace)
    names = bucket.run(lambda store: store.folders(folder))
    return [keys.log_folder(folder, int(name)) for name in names if name.isdecimal()]


def roll_up_tails(bucket: Bucket, logs: Sequence[FoundLog]) -> list[str]:
    """Roll up abandoned tails; return notes on what could not be done."""
    notes = []
    for row in logs:
        notes += row.snapshot.problems
        if row.idle:
            try:
                idle_tails.roll_up(bucket, row.snapshot.folder)
            except LogStopped as stopped:
                notes.append(f"the tail was left alone: {stopped}")
    return notes


def as_if_rolled_up(row: FoundLog) -> FoundLog:
    """The log as it will be when its idle tail is rolled up: for dry runs."""
    if not row.idle:
        return row
    log = row.snapshot
    entries = [
        manifest.entry_of(
            piece.key.rpartition("/")[2],
            piece.base,
            piece.end,
            piece.content_id,
            piece.spans,
            has_index=False,
        )
        for piece in log.tail
    ]
    marks = {lane: LaneMark(start, end) for lane, (start, end) in log.lanes().items()}
    past = manifest.append_history(log.manifest, entries, log.end, log.tail[-1].content_id, marks)
    return row._replace(snapshot=log._replace(manifest=past, tail=[]))


def settings_of(topic: TopicDescriptor) -> TopicSettings:
    """The topic's own settings, with Kafscale's defaults for the rest."""
    return TopicSettings.of(topic.configs, TopicDefaults())


def in_bytes(context: Context, what: str) -> Callable[[int, int], None]:
    """Progress of a part of the job, in bytes."""
    return lambda done, total: context.progress(what, done, total, "B")
