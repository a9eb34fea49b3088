"""`kafscale recover`: rebuild the metadata store from the bucket. The bucket is only read.

Here: options, when to refuse, the report. Next door: the work
(log/catalog/bucket_scan.py, admin/bucket/recovery.py).
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from kafscale.admin.bucket import recovery, topic_lookup
from kafscale.admin.bucket.recovery import Plan
from kafscale.cli.terminal.config_arguments import add_config_arguments, config_of
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.cli.terminal.output import counting, print_json, print_line
from kafscale.log.catalog import bucket_scan
from kafscale.log.catalog.bucket_scan import Evidence
from kafscale.metadata import keys
from kafscale.metadata.store import MetadataStore
from kafscale.model.errors import MetadataConflict
from kafscale.model.topics import iso_time
from kafscale.settings.config import Config
from kafscale.settings.sections import OBJECTS_FOLDER
from kafscale.settings.stores import open_metadata
from kafscale.system import SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--from-bucket",
        action="store_true",
        required=True,
        help="rebuild from the bucket, which is only read",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="another store than the configured one: s3://bucket/namespace or a folder",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="add to a metadata store that has topics: it keeps its rows, but topics become what "
        "the bucket says, and ids that are given out next rise",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be written, change nothing"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    add_config_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Do it and give the exit code: 1 if anything in the bucket could not be read."""
    return asyncio.run(_recover(args, config_of(args)))


async def _recover(args: argparse.Namespace, config: Config) -> int:
    source = source_of(config, args.store)
    clock = SystemClock()
    async with _opened_metadata(config, dry_run=args.dry_run) as metadata:
        if brokers := await metadata.find(keys.BROKERS):
            raise CommandError(f"{len(brokers)} brokers run on this metadata store: stop them")
        async with topic_lookup.opened(source) as store:
            with counting("logs read", None, shown=not args.json) as show:
                evidence = await bucket_scan.gather(store, source.storage.namespace, clock, show)
        wanted = await recovery.plan(metadata, evidence, config.topic_defaults)
        _refuse_to_mix(wanted, force=args.force or args.dry_run)
        if not args.dry_run and (wanted.writes or wanted.is_resumed):
            try:
                await recovery.carry_out(metadata, wanted, source.storage.namespace, clock)
            except MetadataConflict as conflict:
                raise CommandError(
                    f"another process writes to the metadata store: {conflict}; stop all brokers "
                    "and run this again"
                ) from conflict
    facts = _facts(evidence, wanted, clock.now_ms(), dry_run=args.dry_run)
    if args.json:
        print_json(facts)
    else:
        _tell(facts)
    return 1 if wanted.problems else 0


def _refuse_to_mix(wanted: Plan, *, force: bool) -> None:
    if wanted.topics_before and wanted.writes and not (force or wanted.is_resumed):
        raise CommandError(
            f"the metadata store has {wanted.topics_before} topics already; --force adds what it "
            "lacks, --dry-run shows what that is"
        )


def source_of(config: Config, url: str | None) -> Config:
    """The configuration whose store is the one a URL names."""
    if url is None:
        return config
    parts = urlsplit(url)
    storage = config.storage
    if parts.scheme == "s3" and parts.netloc:
        if parts.path.strip("/"):
            storage = msgspec.structs.replace(storage, namespace=parts.path.strip("/"))
        s3 = msgspec.structs.replace(config.s3, bucket=parts.netloc)
        return msgspec.structs.replace(config, s3=s3, storage=storage, use_memory_s3=False)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise UsageError(f"--store: expected s3://bucket/namespace or a folder, found {url!r}")
    folder = Path(unquote(parts.path))
    data = folder.parent if folder.name == OBJECTS_FOLDER else folder
    if not (data / OBJECTS_FOLDER).is_dir():
        raise CommandError(f"--store: no broker has kept objects in {folder}")
    return msgspec.structs.replace(
        config,
        broker=msgspec.structs.replace(config.broker, data_dir=str(data)),
        s3=msgspec.structs.replace(config.s3, bucket=None),
        use_memory_s3=False,
    )


@asynccontextmanager
async def _opened_metadata(config: Config, *, dry_run: bool) -> AsyncIterator[MetadataStore]:
    """Open the store that is to be rebuilt; a dry run does not create one."""
    with TemporaryDirectory(prefix="kafscale-recover-") as nowhere:
        is_new = not config.metadata_file.exists()
        if dry_run and is_new and not config.etcd.endpoints:
            broker = msgspec.structs.replace(config.broker, data_dir=nowhere)
            config = msgspec.structs.replace(config, broker=broker)
        metadata = open_metadata(config, SystemClock())
        try:
            yield metadata
        finally:
            await metadata.aclose()


def _facts(evidence: Evidence, wanted: Plan, now_ms: int, *, dry_run: bool) -> dict[str, Any]:
    head = evidence.checkpoint.head if evidence.checkpoint else None
    return {
        "dry_run": dry_run,
        "changes": len(wanted.writes),
        "topics": {
            "found": len(evidence.topics),
            "written": wanted.topics,
            "deleted": len(evidence.ended),
            "taken_out": wanted.topics_removed,
            "removals_noted": wanted.removals,
        },
        "logs": evidence.logs,
        "checkpoint": None
        if head is None
        else {
            "number": head.number,
            "taken_at": iso_time(head.created_ms),
            "age_s": max(0, now_ms - head.created_ms) // 1000,
            "cluster_id": head.cluster_id,
            "author": head.author,
        },
        "access_written": {
            "acls": wanted.acls,
            "credentials": wanted.credentials,
            "tokens": wanted.tokens,
            "quotas": wanted.quotas,
        },
        "groups_written": wanted.groups,
        "offsets": {
            "written": wanted.offsets,
            "kept": wanted.offsets_kept,
            "of_deleted_topics": wanted.offsets_without_topic,
            "below_log_start": wanted.offsets_below_start,
            "beyond_log_end": wanted.offsets_beyond_end,
        },
        "transactions_to_commit": wanted.transactions,
        "next": wanted.marks,
        "problems": wanted.problems,
    }


def _tell(facts: dict[str, Any]) -> None:
    topics, offsets, head = facts["topics"], facts["offsets"], facts["checkpoint"]
    print("would write:" if facts["dry_run"] else "written:")
    print(f"  topics   {topics['written']} of {topics['found']}, {facts['logs']} logs read")
    if topics["deleted"] or topics["removals_noted"]:
        print(
            f"           {topics['deleted']} names stay deleted, "
            f"{topics['removals_noted']} removals noted again"
        )
    if head is None:
        print("  groups   none: there is no checkpoint in the bucket that can be read")
    else:
        print(f"  groups   {facts['groups_written']}, offsets {offsets['written']}")
        print(
            f"           as of {head['taken_at']}, {head['age_s']} s ago "
            f"(checkpoint {head['number']} of cluster {head['cluster_id']})"
        )
    for name, count in offsets.items():
        if count and name != "written":
            print(f"           {count} {name.replace('_', ' ')}")
    access = [f"{name} {count}" for name, count in facts["access_written"].items() if count]
    if access:
        print(f"  access   {', '.join(access)}")
    numbers = ", ".join(f"{name} {number}" for name, number in facts["next"].items())
    print(f"  next     {numbers}")
    for problem in facts["problems"]:
        print_line(f"problem: {problem}")
    if not facts["changes"]:
        print("nothing to do: the metadata store has all of it")
