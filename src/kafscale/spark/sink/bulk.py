"""Loading a new topic in bulk: straight into segments, visible all at once or not at all.

Tasks put encoded batches aside (staging.py); when all have counted their rows, the batches get
their offsets and become segments (sealing.py); then the driver writes one manifest per log and,
last, the topic's descriptor, created only if absent. Before that no reader sees anything; after
it everything is there. All of it lies in a folder that carries the topic's fresh id, so
two loads of one name never meet: one of them is told that the topic exists.
Next door: the DataFrame's sink (sink.py), abandoned folders (leftovers.py).
"""

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from kafscale.log.catalog.descriptors import Descriptors, TopicSpec
from kafscale.log.catalog.lane_allotment import SharedLogs
from kafscale.log.formats import keys, manifest, places
from kafscale.log.formats.manifest import LaneMark, Manifest, SegmentEntry
from kafscale.log.formats.places import LanePlace
from kafscale.log.moves import end_of_topic
from kafscale.log.protocol import commits
from kafscale.model.configs.topic_configs import WHERE_IT_LIES
from kafscale.model.errors import InvalidPartitionCount, InvalidTopicName, TopicExists
from kafscale.model.names import check_topic_name, collides, fresh_topic_id
from kafscale.model.topics import (
    LaneRange,
    Layout,
    TopicDefaults,
    TopicDescriptor,
    TopicSettings,
    iso_time,
    validate_configs,
)
from kafscale.objects.store import ObjectStore
from kafscale.records.compression import Codec
from kafscale.spark import leftovers
from kafscale.spark.bucket import Bucket
from kafscale.spark.execution import units
from kafscale.spark.leftovers import LoadLost
from kafscale.spark.sink import sealing
from kafscale.spark.sink.sealing import LEADER_EPOCH, Seal, Sealed
from kafscale.spark.sink.staging import LoadTarget, StagedSection, stage

MOST_PARTITIONS: Final = 100_000
_STAGED: Final = "task int, sections binary"

ShowStep = Callable[[str, int, int], None]  # what, how many are done, of how many


class LoadPlan(NamedTuple):
    """A load that has begun: its topic is not visible yet."""

    target: LoadTarget
    wish: TopicSpec
    settings: TopicSettings
    places: list[LanePlace]  # of its partitions

    @property
    def is_ordinary(self) -> bool:
        """Whether every partition has a log of its own, in which offsets are positions."""
        return self.wish.logs is None and not self.wish.shared

    @property
    def topic(self) -> str:
        """What the topic will be called."""
        return self.wish.name


class Loaded(NamedTuple):
    """A load that is done."""

    topic: TopicDescriptor
    records: int
    bytes: int
    segments: int
    offsets: list[int]  # the end of every partition


def begin(
    bucket: Bucket,
    topic: str,
    partitions: int,
    *,
    compression: str = "none",
    configs: Mapping[str, str] | None = None,
    origin: str = "",
    layout: Layout = "ordinary",
    logs: int = 0,
) -> LoadPlan:
    """Refuse what cannot become a topic, else choose where its objects will lie.

    `logs`: on how many the partitions of a virtual topic lie; of a shared one, how many logs
    there are to be at least. What `configs` say of the layout does not count.
    Folders that earlier loads left behind are looked after on this occasion.
    """
    check_topic_name(topic)
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise InvalidPartitionCount(f"a topic has 1 to {MOST_PARTITIONS} partitions")
    if layout == "virtual" and not 1 <= logs <= partitions:
        raise InvalidPartitionCount(f"{partitions} partitions lie on 1 to {partitions} logs")
    configs = laid_out(configs or {}, layout, logs)
    validate_configs(configs)
    Codec.named(compression)
    bucket.run(_check_name, bucket.namespace, topic)
    leftovers.sweep(bucket)
    shared: list[LaneRange] = []
    if layout == "shared":
        shared = [bucket.run(lambda store: _allotted(store, bucket.namespace, partitions, logs))]
    wish = TopicSpec(
        topic,
        fresh_topic_id(bucket.dice).hex(),
        partitions,
        configs,
        iso_time(bucket.clock.now_ms()),
        own_folder=True,
        origin=origin,
        logs=logs if layout == "virtual" else None,
        shared=shared,
    )
    return plan_of(bucket, wish, compression)


async def _allotted(store: ObjectStore, namespace: str, count: int, logs: int) -> LaneRange:
    """Lanes that no topic has ever had."""
    return await SharedLogs(store, namespace).allot(count, max(logs, 1))


def laid_out(configs: Mapping[str, str], layout: Layout, logs: int) -> dict[str, str]:
    """The settings of a topic, with what they say of its layout made true."""
    kept = {name: value for name, value in configs.items() if name not in WHERE_IT_LIES}
    if layout == "virtual":
        kept["physical.partitions"] = str(logs)
    elif layout == "shared":
        kept["storage.placement"] = "shared"
    return kept


def plan_of(bucket: Bucket, wish: TopicSpec, compression: str) -> LoadPlan:
    """The load that is to fulfil a wish, begun now or by a run before this one."""
    folder = keys.topic_folder(bucket.namespace, wish.name, wish.topic_id)
    settings = TopicSettings.of(wish.configs, TopicDefaults())
    now_ms = bucket.clock.now_ms()
    target = LoadTarget(bucket, folder, wish.partitions, compression, now_ms)
    return LoadPlan(target, wish, settings, _places(wish, folder))


def _places(wish: TopicSpec, folder: str) -> list[LanePlace]:
    """Where the partitions will lie."""
    if wish.shared:
        return list(places.lanes_of(wish.shared))
    slots = LaneRange(folder, 0, wish.partitions, wish.logs or wish.partitions)
    return list(places.lanes_of([slots]))


async def _check_name(store: ObjectStore, namespace: str, topic: str) -> None:
    descriptors = Descriptors(store, namespace)
    _, newest = await descriptors.newest(topic)
    if newest is not None and not newest.deleted:
        raise TopicExists(f"topic {topic!r} exists already: a load makes a new one")
    for other in await descriptors.names():
        if collides(topic, other):
            _, descriptor = await descriptors.newest(other)
            if descriptor is not None and not descriptor.deleted:
                raise InvalidTopicName(f"{topic!r} collides with {other!r} ('.' and '_' are one)")


def seals(plan: LoadPlan, sections: Iterable[StagedSection]) -> list[Seal]:
    """The segments to be made of everything that was staged, in the order of the tasks."""
    return sealing.plan(
        plan.target.folder,
        sections,
        plan.places,
        segment_bytes=plan.settings.segment_bytes,
        index_interval_bytes=plan.settings.index_interval_bytes,
    )


def commit(
    plan: LoadPlan, sealed: Iterable[Sealed], *, starts: Mapping[int, int] | None = None
) -> Loaded:
    """Make the topic visible: manifests, a last look, then the descriptor that counts.

    `starts` gives partitions a first offset other than 0. Two runs that share a plan and its
    results may both commit: what they write says the same, and what was created first counts.
    """
    by_log: dict[str, list[SegmentEntry]] = {}
    maps: list[str] = []
    for row in sealed:
        by_log.setdefault(row.log, []).append(row.entry)
        maps += [row.map_name] if row.map_name else []
    bucket, folder = plan.target.bucket, plan.target.folder
    put_map_names(bucket, folder, maps)
    lanes: dict[str, dict[int, int]] = {}
    ends = dict.fromkeys(plan.places, 0)
    for number, at in (starts or {}).items():
        place = plan.places[number]
        lanes.setdefault(place.folder, {})[place.lane] = ends[place] = at
    wanted: set[str] = set()
    for log in sorted(set(by_log) | set(lanes)):
        entries = sorted(by_log.get(log, []), key=lambda entry: entry.base)
        past = _manifest(bucket, entries, lanes.get(log, {}), is_ordinary=plan.is_ordinary)
        ends |= {LanePlace(log, lane): mark.next for lane, mark in past.lanes.items()}
        key = keys.manifest(log, past.generation)
        wanted |= {key, *(f"{log}/{entry.name}" for entry in entries)}
        _put(bucket, key, manifest.encode(past))
    bucket.run(leftovers.check_whole, folder, wanted)
    made = describe(plan)
    entries = [entry for rows in by_log.values() for entry in rows]
    records, size = sum(e.records for e in entries), sum(e.size for e in entries)
    return Loaded(made, records, size, len(entries), [ends[place] for place in plan.places])


def put_map_names(bucket: Bucket, folder: str, maps: Sequence[str]) -> None:
    """Say which files tell where rows came from."""
    if maps:
        _put(bucket, f"{folder}/offset-map/names", json.dumps(sorted(maps)).encode())


def _put(bucket: Bucket, key: str, body: bytes) -> None:
    # In a folder of our own: a name that is taken is taken by our attempt whose answer was lost.
    bucket.run(commits.put_same, key, [body], "manifest")


def _manifest(
    bucket: Bucket, entries: list[SegmentEntry], starts: Mapping[int, int], *, is_ordinary: bool
) -> Manifest:
    """Of one log; with a single lane its positions are the offsets."""
    at = starts.get(0, 0) if is_ordinary else 0
    marks = {lane: LaneMark(start, start) for lane, start in starts.items()}
    for entry in entries:
        if entry.base != at:
            raise LoadLost(f"{entry.name} begins at {entry.base}, not at {at}")
        at = entry.end
        (span,) = entry.spans()
        mark = marks.get(span.lane, LaneMark(span.first, span.first))
        if span.first != mark.next:
            raise LoadLost(f"{entry.name} goes on at offset {span.first}, not at {mark.next}")
        epochs = mark.epochs or [(LEADER_EPOCH, span.first)]
        marks[span.lane] = LaneMark(mark.start, span.last + 1, epochs)
    return Manifest(
        generation=sealing.GENERATION,
        commit_id=bucket.dice.token(16).hex(),
        created_ms=bucket.clock.now_ms(),
        author="bulk load",
        end=at,
        segments=entries,
        lanes=marks,
    )


def describe(plan: LoadPlan) -> TopicDescriptor:
    """Make the topic visible, all of which is there."""
    bucket = plan.target.bucket

    async def create(store: ObjectStore) -> TopicDescriptor:
        tools = end_of_topic.Tools(store, bucket.clock, bucket.dice)
        end = partial(end_of_topic.end_topic, tools)
        return (await Descriptors(store, bucket.namespace).create(plan.wish, end))[1]

    made = bucket.run(create)
    if made.topic_id != plan.wish.topic_id:
        raise TopicExists(f"topic {plan.topic!r} was created by another client meanwhile")
    return made


def tidy_up(plan: LoadPlan) -> None:
    """Delete what was staged; a task that is still running may leave more, for the sweep."""
    folder = f"{plan.target.folder}/staged"
    plan.target.bucket.run(leftovers.delete_below, folder)


# -- a DataFrame as a whole ------------------------------------------------------------------


def load(
    frame: DataFrame,
    bucket: Bucket,
    topic: str,
    partitions: int,
    *,
    compression: str = "none",
    configs: Mapping[str, str] | None = None,
    origin: str = "",
    progress: ShowStep | None = None,
) -> Loaded:
    """Make a new topic of a DataFrame with the columns of the sink, all of it on the executors.

    Records keep the order of the DataFrame's partitions and of the rows in them.
    """
    plan = begin(bucket, topic, partitions, compression=compression, configs=configs, origin=origin)
    sections = stage_frame(frame, plan.target)
    return finish(plan, sections, frame, progress)


def finish(
    plan: LoadPlan,
    sections: Sequence[StagedSection],
    frame: DataFrame,
    progress: ShowStep | None = None,
) -> Loaded:
    """Seal on the executors, commit here."""
    bucket = plan.target.bucket
    sealed = units.run_units(
        frame.sparkSession,
        seals(plan, sections),
        lambda work: sealing.seal(bucket, work),
        progress=None if progress is None else partial(progress, "segments"),
    )
    loaded = commit(plan, sealed)
    tidy_up(plan)
    return loaded


def stage_frame(frame: DataFrame, target: LoadTarget) -> list[StagedSection]:
    """Put all rows of a DataFrame aside; sections in the order of its partitions."""

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.freeze()
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        rows = stage(target, task, batches)
        yield pa.RecordBatch.from_pydict(
            {
                "task": pa.array([task], pa.int32()),
                "sections": pa.array([json.dumps(rows).encode()], pa.binary()),
            }
        )

    by_task: dict[int, Any] = {
        row["task"]: json.loads(row["sections"])
        for row in frame.mapInArrow(on_worker, _STAGED).collect()
    }
    return [StagedSection(*section) for task in sorted(by_task) for section in by_task[task]]
