"""The verdict: rows of the tables against records of the topics.

The records are read by a Kafka client with `read_committed`, the rows by DuckDB, whose readers of
Delta and Iceberg are its own. Next door: what is left of crashes is for the pipeline to sweep, and
for `leftovers` to look for.
"""

import json
import re
from collections import Counter
from typing import Any, NamedTuple

import deltalake
import obstore
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.faults.cluster import NAMESPACE
from tests.faults.s3_proxy import direct_store
from tests.faults.tables.writers import (
    PARTITIONS,
    TABLES,
    DealsWriter,
    LinesWriter,
    TableWriter,
)
from tests.faults.workers import QUIET, Reach
from tests.support import duck
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY

_VERSION = re.compile(r"/v(\d+)\.metadata\.json$")


class NotReadable(Exception):
    """A topic could not be read to its end, which is the broker's to answer for."""


class Row(NamedTuple):
    """A record, or a row of a table."""

    partition: int
    offset: int
    key: str
    number: int | None
    life: int | None
    more: int | None = None


def records_of(reach: Reach, topic: str) -> list[Row]:
    """All committed records, in the order of each partition; a tombstone has no number."""
    consumer = Consumer(
        {**reach, **QUIET, "group.id": "judge", "enable.partition.eof": True,
         "enable.auto.commit": False, "isolation.level": "read_committed"}
    )  # fmt: skip
    known = consumer.list_topics(timeout=60).topics.get(topic)
    if known is None or known.error is not None:
        consumer.close()
        return []  # deleted at last: a create was answered before a delete took effect
    places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    consumer.assign(places)
    rows, ended, said_last = [], set[int](), ""
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(120)
            if message is None:
                raise NotReadable(
                    f"{topic}: of {PARTITIONS} partitions {ended} have an end; {len(rows)} records "
                    f"were read; the last error: {said_last or 'none'}"
                )
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
                else:
                    said_last = str(error)
                continue
            value = message.value()
            said = {} if value is None else json.loads(value)
            key = message.key()
            rows.append(
                Row(message.partition() or 0, message.offset() or 0,
                    (key if isinstance(key, bytes) else b"").hex(),
                    said.get("n"), said.get("life"), said.get("more"))
            )  # fmt: skip
    finally:
        consumer.close()
    return rows


def rows_of(endpoint: str) -> dict[str, list[Row]]:
    """The rows of every table, by an engine that knows nothing of us."""
    store = direct_store(endpoint)
    asked = [duck.bucket_secret(endpoint, ACCESS_KEY, SECRET_KEY)]
    there = []
    for topic, kind in TABLES.items():
        if address := _address(store, topic, kind):
            more = "more" if topic == "lines" else "null"
            columns = f"_partition, _offset, _key, n, life, {more}"
            asked.append(f"select {columns} from {kind}_scan('{address}')")
            there.append(topic)
    answers = dict(zip(there, duck.ask(*asked)[1:], strict=True))
    return {
        topic: [Row(*row[:2], row[2] or "", *row[3:]) for row in answers.get(topic, [])]
        for topic in TABLES
    }


def rows_of_catalog(endpoint: str, url: str, token: str) -> dict[str, list[Row]]:
    """The rows of every Iceberg table, as the catalog shows it to the same engine."""
    topics = [topic for topic, kind in TABLES.items() if kind == "iceberg"]
    columns = "_partition, _offset, _key, n, life, null"
    answers = duck.ask(
        duck.bucket_secret(endpoint, ACCESS_KEY, SECRET_KEY),
        f"CREATE SECRET catalog (TYPE iceberg, TOKEN '{token}')",
        "ATTACH 'kafscale' AS topics (TYPE iceberg, SECRET catalog, "
        f"ACCESS_DELEGATION_MODE 'none', ENDPOINT '{url}')",
        *(f"select {columns} from topics.{NAMESPACE}.{topic}" for topic in topics),
    )
    rows = dict(zip(topics, answers[-len(topics) :], strict=True))
    return {topic: [Row(*row[:2], row[2] or "", *row[3:]) for row in rows[topic]] for topic in rows}


def catalog_findings(tables: dict[str, list[Row]], shown: dict[str, list[Row]]) -> list[str]:
    """Where the catalog shows other rows than lie in the bucket."""
    return [
        f"{topic}: the catalog shows {len(rows)} rows, {len(tables[topic])} lie in the bucket"
        for topic, rows in shown.items()
        if Counter(rows) != Counter(tables[topic])
    ]


def _address(store: Any, topic: str, kind: str) -> str:
    """What the engine is to read; nothing where there is no table."""
    folder = f"{NAMESPACE}/@tables/{topic}"
    names = [row["path"] for page in obstore.list(store, f"{folder}/") for row in page]
    if kind == "delta":
        return f"s3://{BUCKET}/{folder}" if any("_delta_log/" in name for name in names) else ""
    numbers = [int(found[1]) for name in names if (found := _VERSION.search(name))]
    return f"s3://{BUCKET}/{folder}/metadata/v{max(numbers)}.metadata.json" if numbers else ""


def findings(
    tables: dict[str, list[Row]], topics: dict[str, list[Row]], writers: dict[str, TableWriter]
) -> list[str]:
    """What is wrong, in words; nothing, if rows = records, once."""
    found = []
    for topic, rows in tables.items():
        places = Counter((row.life, row.partition, row.offset) for row in rows)
        if twice := [place for place, count in places.items() if count > 1]:
            found.append(f"{topic}: {len(twice)} rows come twice, such as {twice[0]}")
    for topic in ("lines", "deals"):
        found += _differences(topic, tables[topic], topics[topic])
    found += _differences("states", tables["states"], _newest(topics["states"]))
    found += _of_many_lives(tables["comes"], topics["comes"], writers["comes"])
    return found + _promises(tables, writers)


def _of_many_lives(rows: list[Row], records: list[Row], writer: TableWriter) -> list[str]:
    """Rows of earlier lives stay; those of this one are complete; no record is two rows."""
    found = []
    numbers = Counter(row.number or 0 for row in rows)
    if twice := [number for number, count in numbers.items() if count > 1]:
        found.append(f"comes: {len(twice)} records are several rows, such as {min(twice)}")
    if unsent := [number for number in numbers if not 0 < number <= writer.sent]:
        found.append(f"comes: {len(unsent)} rows are no records, such as {min(unsent)}")
    if missing := set(records) - set(rows):
        found.append(f"comes: {len(missing)} records are no rows, such as {min(missing)}")
    return found


def _differences(topic: str, rows: list[Row], records: list[Row]) -> list[str]:
    extra, missing = set(rows) - set(records), set(records) - set(rows)
    if topic == "lines":  # the schema grew: a record of before has no such field, nor its row
        extra = {row for row in extra if row._replace(more=None) not in _without_more(records)}
        missing = {row for row in missing if row._replace(more=None) not in _without_more(rows)}
    found = []
    if extra:
        found.append(f"{topic}: {len(extra)} rows are no records, such as {min(extra)}")
    if missing:
        found.append(f"{topic}: {len(missing)} records are no rows, such as {min(missing)}")
    return found


def _without_more(rows: list[Row]) -> set[Row]:
    return {row._replace(more=None) for row in rows}


def _newest(records: list[Row]) -> list[Row]:
    """Of each key the last record, unless it is a tombstone."""
    by_key = {record.key: record for record in sorted(records, key=lambda row: row.offset)}
    return [record for record in by_key.values() if record.number is not None]


def _promises(tables: dict[str, list[Row]], writers: dict[str, TableWriter]) -> list[str]:
    """What producers were told."""
    found = []
    lines, deals = writers["lines"], writers["deals"]
    assert isinstance(lines, LinesWriter)
    assert isinstance(deals, DealsWriter)
    numbers = {topic: {row.number for row in rows} for topic, rows in tables.items()}
    if lost := lines.acked - numbers["lines"]:
        found.append(f"lines: {len(lost)} acknowledged records are no rows, such as {min(lost)}")
    if lost := deals.committed - numbers["deals"]:
        found.append(f"deals: {len(lost)} committed records are no rows, such as {min(lost)}")
    if seen := deals.aborted & numbers["deals"]:
        found.append(f"deals: {len(seen)} aborted records are rows, such as {min(seen)}")
    if lines.has_grown and not any(row.more for row in tables["lines"]):
        found.append("lines: the column that was added is empty")
    return found


def leftovers(endpoint: str) -> list[str]:
    """Files of the Delta tables that no version of them has ever had."""
    store = direct_store(endpoint)
    options = {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    found: list[str] = []
    for topic, kind in TABLES.items():
        if kind != "delta" or not _address(store, topic, kind):
            continue
        folder = f"{NAMESPACE}/@tables/{topic}"
        url = f"s3://{BUCKET}/{folder}"
        newest = deltalake.DeltaTable(url, storage_options=options)
        named: set[str] = set()
        for version in range(newest.version() + 1):
            then = deltalake.DeltaTable(url, version=version, storage_options=options)
            named |= {uri.removeprefix(f"s3://{BUCKET}/") for uri in then.file_uris()}
        there = {row["path"] for page in obstore.list(store, f"{folder}/") for row in page}
        found += sorted(path for path in there - named if path.endswith(".parquet"))
    return found
