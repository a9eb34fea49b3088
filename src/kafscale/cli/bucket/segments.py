"""`kafscale segments`: a topic's objects, read from the bucket itself. No broker is asked.

Next door: finding the topic (admin/bucket/topic_lookup.py), the checks
(admin/bucket/verification.py).
"""

import argparse
import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from kafscale.admin.bucket import checkpoint_view, topic_lookup
from kafscale.admin.bucket.checkpoint_view import CheckpointView
from kafscale.admin.bucket.verification import verify_logs
from kafscale.admin.units import human_bytes
from kafscale.cli.terminal.config_arguments import add_config_arguments, config_of
from kafscale.cli.terminal.errors import CommandError
from kafscale.cli.terminal.output import counting, print_columns, print_json, print_line
from kafscale.log.formats import index, keys, places, segment
from kafscale.log.protocol.survey import LiveSegment, LogSurvey
from kafscale.model.errors import BadBatch, CorruptObject, ObjectMissing
from kafscale.model.topics import TopicDescriptor
from kafscale.objects.store import ObjectStore
from kafscale.records import batch
from kafscale.records.compression import Codec
from kafscale.settings.config import Config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the segments that make up a topic")
    inspect = actions.add_parser("inspect", help="show what is in one object")
    check = actions.add_parser("verify", help="read every object of a topic and check it")
    for action in (listing, check):
        action.add_argument("topic", metavar="TOPIC")
        action.add_argument(
            "-p", "--partition", type=int, metavar="N", help="one partition (default: all)"
        )
    inspect.add_argument("key", metavar="KEY", help="an object's key, as `list` shows it")
    inspect.add_argument(
        "--topic", metavar="TOPIC", help="show only this topic's lanes of a segment"
    )
    for action in (listing, inspect, check):
        action.add_argument("--json", action="store_true", help="print JSON instead of columns")
        add_config_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code."""
    config = config_of(args)
    match args.action:
        case "list":
            return asyncio.run(_list(args, config))
        case "inspect":
            return asyncio.run(_inspect(args, config))
    return asyncio.run(_verify(args, config))


async def _views(
    args: argparse.Namespace, config: Config, store: ObjectStore
) -> tuple[TopicDescriptor, list[LogSurvey]]:
    descriptor = await topic_lookup.find_topic(store, config.storage.namespace, args.topic)
    folders = topic_lookup.log_folders(descriptor, args.partition)
    return descriptor, [await topic_lookup.survey_log(store, folder) for folder in folders]


async def _list(args: argparse.Namespace, config: Config) -> int:
    async with topic_lookup.opened(config) as store:
        descriptor, views = await _views(args, config, store)
    rows = [
        {
            "log": topic_lookup.log_name(descriptor, view.folder),
            **extent,
            "written": iso(piece.modified_ms),
            "key": piece.key,
        }
        for view in views
        for lanes in [_lanes_shown(descriptor, view.folder, args.partition)]
        for piece in view.pieces
        for extent in _extents(descriptor, view, piece, lanes)
    ]
    if args.json:
        for row in rows:
            print_json(row)
    elif rows:
        print_columns(list(rows[0]), [list(row.values()) for row in rows])
    leftovers = [row for view in views for row in view.leftovers]
    if leftovers and not args.json:
        size = human_bytes(sum(row.size for row in leftovers))
        whose = " of its shared logs" if descriptor.layout == "shared" else ""
        print(f"and {len(leftovers)} replaced objects{whose} ({size}) that wait to be deleted")
    return 0


def _lanes_shown(
    descriptor: TopicDescriptor, folder: str, partition: int | None
) -> Mapping[int, int] | None:
    """Partitions by the lanes to show of a log; None: objects as a whole, all are the topic's."""
    if partition is not None:
        return {topic_lookup.place_of(descriptor, partition).lane: partition}
    return places.lanes_in(descriptor, folder) if descriptor.layout == "shared" else None


def _extents(
    descriptor: TopicDescriptor,
    view: LogSurvey,
    piece: LiveSegment,
    lanes: Mapping[int, int] | None,
) -> Iterator[dict[str, Any]]:
    """What an object holds: its positions, or the offsets of each lane that is to be shown."""
    if lanes is None:
        yield _extent(piece, piece.base, piece.end - 1, piece.records, piece.size)
        return
    for span in piece.spans:
        if span.lane not in lanes:
            continue
        mark = view.manifest.lanes.get(span.lane)
        if mark is not None and span.last < mark.start:
            continue  # deleted; the object is there for others' sake
        where = {"lane": span.lane, "partition": lanes[span.lane]}
        yield {
            **(where if descriptor.layout == "shared" else {}),
            **_extent(piece, span.first, span.last, span.records, span.length),
        }


def _extent(piece: LiveSegment, first: int, last: int, records: int, size: int) -> dict[str, Any]:
    return {"kind": piece.kind, "first": first, "last": last, "records": records, "bytes": size}


async def _verify(args: argparse.Namespace, config: Config) -> int:
    async with topic_lookup.opened(config) as store:
        descriptor, views = await _views(args, config, store)
        segments = sum(len(view.pieces) for view in views)
        with counting("segments checked", segments, shown=True) as show:
            records, size, problems = await verify_logs(store, views, show)
    if args.json:
        print_json(
            {
                "topic": args.topic,
                "logs": len(views),
                "segments": segments,
                "records": records,
                "bytes": size,
                "problems": problems,
            }
        )
    else:
        for text in problems:
            print_line(text)
        kind = "shared " if descriptor.layout == "shared" else ""
        verdict = f"{len(problems)} problems" if problems else "all sound"
        print(
            f"{args.topic}: {len(views)} {kind}logs, {segments} segments, {records} records, "
            f"{human_bytes(size)}: {verdict}"
        )
    return 1 if problems else 0


async def _inspect(args: argparse.Namespace, config: Config) -> int:
    lanes: Mapping[int, int] | None = None
    async with topic_lookup.opened(config) as store:
        if args.topic is not None:
            topic = await topic_lookup.find_topic(store, config.storage.namespace, args.topic)
            lanes = places.lanes_in(topic, args.key.rpartition("/")[0])
        try:
            data = await store.read(args.key)
        except ObjectMissing as bad:
            raise CommandError(f"{args.key}: no such object") from bad
        if checkpoint_view.is_checkpoint(args.key):
            await _show_checkpoint(args, store)
            return 0
    name = keys.parse_segment(args.key)
    try:
        if name is None:
            _print_document(args, data)
        elif name.is_index:
            _print_index(args, index.decode(data))
        else:
            _print_segment(args, data, segment.parse(data), lanes)
    except (CorruptObject, BadBatch) as bad:
        raise CommandError(f"{args.key}: {bad}") from bad
    return 0


async def _show_checkpoint(args: argparse.Namespace, store: ObjectStore) -> None:
    try:
        view = await checkpoint_view.read_checkpoint(store, args.key)
    except (CorruptObject, ObjectMissing) as bad:
        raise CommandError(f"{args.key}: not whole: {bad}") from bad
    if args.json:
        tables = {"groups": list(view.groups.values()), "offsets": view.offsets}
        numbers = {"marks": view.marks, "brokers": view.brokers}
        print_json({**view.facts, **tables, **numbers, "others": view.others})
    else:
        _print_checkpoint(view)


def _print_checkpoint(view: CheckpointView) -> None:
    facts = dict(view.facts)
    print_line(f"checkpoint {facts.pop('key')}")
    facts |= {"groups": len(view.groups), "offsets": len(view.offsets)}
    facts |= {f"next of {kind}": number for kind, number in view.marks.items()}
    facts |= {f"broker {name}": number for name, number in view.brokers.items()}
    facts |= {key: msgspec.json.encode(value).decode() for key, value in view.others.items()}
    width = max(map(len, facts))
    for name, value in facts.items():
        print_line(f"  {name:{width}} {value}")
    for rows in (list(view.groups.values()), view.offsets):
        if rows:
            print()
            print_columns(list(rows[0]), [list(row.values()) for row in rows])


def _print_document(args: argparse.Namespace, data: memoryview) -> None:
    """Manifests, descriptors and allotments are JSON as they are."""
    if keys.parse_generation(args.key) is None:
        raise CommandError(f"{args.key}: neither segment, index, checkpoint nor JSON of Kafscale")
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as bad:
        raise CommandError(f"{args.key}: not JSON: {bad}") from bad
    if args.json:
        print_json(value)
    else:
        print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _print_index(args: argparse.Namespace, table: index.Index) -> None:
    rows = [
        (*index.from_address(address), position)
        for address, position in zip(table.addresses, table.positions, strict=True)
    ]
    if args.json:
        entries = [{"lane": lane, "offset": offset, "byte": at} for lane, offset, at in rows]
        print_json({"key": args.key, "interval": table.interval, "entries": entries})
    else:
        print_line(f"index {args.key}  an entry every {table.interval} bytes")
        print_columns(("lane", "offset", "byte"), rows)


def _print_segment(
    args: argparse.Namespace,
    data: memoryview,
    content: segment.Segment,
    lanes: Mapping[int, int] | None,
) -> None:
    facts = {
        "key": args.key,
        "first": content.base,
        "last": content.end - 1,
        "records": content.records,
        "bytes": len(data),
        "created": iso(content.created_ms),
        "token": f"{content.content_id.token:08x}",
        "crc": f"{content.content_id.crc:08x}",
    }
    rows = [
        {
            **({} if lanes is None else {"partition": lanes[span.lane]}),
            **_batch_facts(data, span.lane, position, header),
        }
        for span in content.spans
        if lanes is None or span.lane in lanes
        for position, header in batch.walk(data, span.start, span.start + span.length)
    ]
    if args.json:
        print_json({**facts, "batches": rows})
        return
    print_line(f"segment {args.key}")
    for key, value in list(facts.items())[1:]:
        print_line(f"  {key:8} {value}")
    if rows:  # a segment has some, but perhaps none of the topic's
        print_columns(list(rows[0]), [list(row.values()) for row in rows])


def _batch_facts(
    data: memoryview, lane: int, position: int, header: batch.BatchHeader
) -> dict[str, Any]:
    with_producer = header.producer_id >= 0
    return {
        "lane": lane,
        "byte": position,
        "first": header.base_offset,
        "last": header.last_offset,
        "records": header.record_count,
        "size": header.size,
        "codec": _codec_name(header.codec),
        "newest": iso(header.max_timestamp_ms),
        "producer": header.producer_id if with_producer else None,
        "sequence": header.base_sequence if with_producer else None,
        "crc": "ok" if batch.check_crc(data[position : position + header.size]) else "bad",
    }


def _codec_name(number: int) -> str:
    return Codec(number).name.lower() if number in set(Codec) else f"unknown ({number})"


def iso(timestamp_ms: int | None) -> str | None:
    """Write a time for people; None where there is none or no calendar has it."""
    if timestamp_ms is None or not 0 <= timestamp_ms < 253402300800000:  # the year 10000
        return None
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
