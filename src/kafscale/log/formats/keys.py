"""Names of the objects in a bucket: the one place that knows them.

    {namespace}/{topic}/descriptor-{version:020d}                 what the topic is, newest counts
    {namespace}/{topic}/{log}/segment-{base:020d}.kfs             a flush, member of the chain
    {namespace}/{topic}/{log}/segment-{base:020d}.index           its sparse index, a hint
    {namespace}/{topic}/{log}/segment-{base:020d}-{generation}-{token}.kfs   rewritten history
    {namespace}/{topic}/{log}/manifest-{generation:020d}          the past, newest counts
    {namespace}/{topic}/{log}/manifest-0922337203685477580{6,7}              the log has ended
    {namespace}/{topic}/{log}/pin-{generation}-{end}-{expires_ms}-{token}    holds back deletion
    {namespace}/@shared/{log}/…                            logs whose lanes are many topics'
    {namespace}/@shared/allotment-{version:020d}           lanes given out so far, newest counts
    {namespace}/@snapshots/{name}                          a namespace's logs at one moment
    {namespace}/@checkpoints/{number:020d}                 groups and marks, newest counts
    {namespace}/@checkpoints/{number:020d}-{token}-{part}  what did not fit into the one above
    {namespace}/@notices/{number:020d}                     what a job has changed, for brokers
    {namespace}/@jobs/{job}/{started_ms}-{token}           a run of a job has begun
    {namespace}/@jobs/{job}/{started_ms}-{token}-end       how it ended
    {namespace}/@runners/{runner}-{number:020d}            a runner of the pipeline is alive
    {namespace}/@cuts/{group}/{number:020d}                tables of a group at one moment
    {namespace}/@tables/{topic}/…                          tables whose topics name no other place
    {namespace}/@schemas/{topic id}/{version:020d}         what payloads of a topic look like

A topic created again under a used name lives in `{topic}@{id}`; '@' is in no topic's name. Neither
is ',': a topic of another tenant and namespace lies in `{tenant},{namespace},{topic}`.
"""

import re
from typing import Final, NamedTuple

_NAME: Final = re.compile(
    r"(?:segment-(\d{20})(?:-(\d+)-([0-9a-f]{8}))?\.(kfs|index)|(manifest|descriptor|allotment)-(\d{20}))"
)


_PIN: Final = re.compile(r"pin-(\d{20})-(\d{20})-(\d{20})-[0-9a-f]{8}")
_CHECKPOINT: Final = re.compile(r"(\d{20})(-[0-9a-f]{8}-\d+)?")

_LONGEST: Final = 200

# Generations of the two last manifests (rule 25): see protocol/end_of_log.py.
ENDED: Final = (1 << 63) - 1
ENDING: Final = ENDED - 1


class SegmentName(NamedTuple):
    """A parsed `segment-…` name; `generation` is None for a flush, the chain's own kind."""

    base: int
    generation: int | None
    is_index: bool


class Pin(NamedTuple):
    """A parsed `pin-…` name: until it expires, the log of that generation and end is kept."""

    generation: int
    end: int
    expires_ms: int

    def holds(self, name: SegmentName, dropped_by: int | None) -> bool:
        """Whether the pinned log may need a segment, given the generation that dropped it.

        Judged by names alone: it may hold a little more than is needed, never less.
        """
        was_there = name.generation is None or name.generation <= self.generation
        was_named = dropped_by is None or dropped_by > self.generation
        return name.base < self.end and was_there and was_named


def topic_folder(namespace: str, topic: str, later_id: str = "") -> str:
    """Where a topic's logs lie; a later incarnation of a name gets its id in the folder.

    The id alone makes the folder unique; a very long name is cut so that the folder's name stays
    within what file systems allow.
    """
    name = folder_name(topic)
    return f"{namespace}/{name[:_LONGEST]}@{later_id}" if later_id else f"{namespace}/{name}"


def folder_name(topic: str) -> str:
    """A topic's name as one part of a key."""
    return topic.replace("/", ",")


def named_by(folder: str) -> str:
    """The topic that `folder_name` made this of."""
    return folder.replace(",", "/")


def descriptor_folder(namespace: str, topic: str) -> str:
    """Where the descriptors of all incarnations of a name lie."""
    return f"{namespace}/{folder_name(topic)}"


def topic_of(namespace: str, key: str) -> str | None:
    """The topic that an object or folder belongs to, if it looks like one."""
    root, start = f"{namespace}/", len(namespace) + 1
    if not key.startswith(root):
        return None
    end = key.find("/", start)
    return named_by(key[start : end if end >= 0 else None].partition("@")[0]) or None


def log_number(namespace: str, key: str) -> str | None:
    """The number of the log that an object belongs to; None if it belongs to none."""
    parts = key[len(namespace) + 1 :].split("/")
    return parts[1] if len(parts) == 3 and parts[1].isdecimal() else None


def log_folder(folder: str, log: int) -> str:
    """Where one log of a topic lies."""
    return f"{folder}/{log}"


def segment(folder: str, base: int) -> str:
    """Name a flush by its first position."""
    return f"{folder}/{segment_name(base)}"


def segment_name(base: int) -> str:
    """Like `segment`, without the folder: the form manifests use."""
    return f"segment-{base:020d}.kfs"


def rewritten_name(base: int, generation: int, token: int) -> str:
    """Name rewritten history; the token makes names unique per attempt, so none is ever reused."""
    return f"segment-{base:020d}-{generation}-{token:08x}.kfs"


def index_of(segment_key: str) -> str:
    """The index that accompanies a segment."""
    return segment_key.removesuffix(".kfs") + ".index"


def manifest(folder: str, generation: int) -> str:
    """Name a manifest."""
    return f"{folder}/manifest-{generation:020d}"


def descriptor(folder: str, version: int) -> str:
    """Name a topic descriptor."""
    return f"{folder}/descriptor-{version:020d}"


def pin(folder: str, parsed: Pin, token: int) -> str:
    """Name a pin."""
    numbers = f"{parsed.generation:020d}-{parsed.end:020d}-{parsed.expires_ms:020d}"
    return f"{folder}/pin-{numbers}-{token:08x}"


def snapshot(namespace: str, name: str) -> str:
    """Name a snapshot; '@' keeps it apart from topics."""
    return f"{namespace}/@snapshots/{name}"


def shared_folder(namespace: str) -> str:
    """Below which the shared logs lie; '@' keeps them apart from topics."""
    return f"{namespace}/@shared"


def allotment(folder: str, version: int) -> str:
    """Name a record of the lanes given out."""
    return f"{folder}/allotment-{version:020d}"


def allotments_before(folder: str) -> str:
    """Upper bound of all such names."""
    return f"{folder}/allotment."


def checkpoint_folder(namespace: str) -> str:
    """Where checkpoints lie; '@' keeps them apart from topics."""
    return f"{namespace}/@checkpoints"


def checkpoint(namespace: str, number: int) -> str:
    """Name a checkpoint's head."""
    return f"{checkpoint_folder(namespace)}/{number:020d}"


def checkpoint_part(number: int, token: bytes, part: int) -> str:
    """Name a part, without the folder; the token tells attempts at one number apart."""
    return f"{number:020d}-{token.hex()}-{part}"


def notice_folder(namespace: str) -> str:
    """Where notices lie; '@' keeps them apart from topics."""
    return f"{namespace}/@notices"


def notice(namespace: str, number: int) -> str:
    """Name a notice."""
    return f"{notice_folder(namespace)}/{number:020d}"


def runs_folder(namespace: str, job: str) -> str:
    """Where the records of a job's runs lie; '@' keeps them apart from topics."""
    return f"{namespace}/@jobs/{job}" if job else f"{namespace}/@jobs"


def run_began(namespace: str, job: str, started_ms: int, token: str) -> str:
    """Name the record of a run that has begun."""
    return f"{runs_folder(namespace, job)}/{started_ms:013d}-{token}"


def run_ended(began: str) -> str:
    """Name the record of how a run ended."""
    return f"{began}-end"


def runners_folder(namespace: str) -> str:
    """Where runners of the pipeline keep their leases."""
    return f"{namespace}/@runners"


def runner_lease(namespace: str, runner: str, number: int) -> str:
    """Name one renewal of a runner's lease."""
    return f"{runners_folder(namespace)}/{runner}-{number:020d}"


def cuts_folder(namespace: str, group: str) -> str:
    """Where the cuts of a group of tables lie."""
    return f"{namespace}/@cuts/{group}"


def cut(namespace: str, group: str, number: int) -> str:
    """Name a cut."""
    return f"{cuts_folder(namespace, group)}/{number:020d}"


def table_folder(namespace: str, topic: str) -> str:
    """Where the table of a topic lies that names no other place."""
    return f"{namespace}/@tables/{folder_name(topic)}"


def schema_folder(namespace: str, topic_id: str) -> str:
    """Where the schemas of a topic lie; '@' keeps them apart from topics."""
    return f"{namespace}/@schemas/{topic_id}"


def schema(namespace: str, topic_id: str, version: int) -> str:
    """Name a version of a schema."""
    return f"{schema_folder(namespace, topic_id)}/{version:020d}"


# '-' sorts right before '.', so these enclose exactly the names of one kind.
def manifests_before(folder: str) -> str:
    """Upper bound of all manifest names in a folder."""
    return f"{folder}/manifest."


def segments_from(folder: str, base: int) -> str:
    """Lower bound of all segment names at or after a base."""
    return f"{folder}/segment-{base:020d}"


def segments_before(folder: str) -> str:
    """Upper bound of all segment names in a folder."""
    return f"{folder}/segment."


def descriptors_before(folder: str) -> str:
    """Upper bound of all descriptor names in a folder."""
    return f"{folder}/descriptor."


def parse_segment(key: str) -> SegmentName | None:
    """Read a segment or index name; None for anything else."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    if not match or match[1] is None:
        return None
    generation = None if match[2] is None else int(match[2])
    return SegmentName(int(match[1]), generation, match[4] == "index")


def flush_base(key: str) -> int | None:
    """The first position of a flush, a member of the chain; None for anything else."""
    name = parse_segment(key)
    return name.base if name and name.generation is None and not name.is_index else None


def is_flush(key: str) -> bool:
    """Whether a key names a member of the chain: any writer of the log may choose that name."""
    return flush_base(key) is not None


def is_rewritten(key: str) -> bool:
    """Whether a key names rewritten history: no other writer will ever choose that name."""
    name = parse_segment(key)
    return name is not None and name.generation is not None


def parse_generation(key: str) -> int | None:
    """Read the number off a manifest, descriptor or allotment name; None for anything else."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return int(match[6]) if match and match[6] is not None else None


def is_last(key: str) -> bool:
    """Whether a key says that its log has ended."""
    return "/manifest-" in key and (parse_generation(key) or 0) >= ENDING


def parse_pin(key: str) -> Pin | None:
    """Read a pin's name; None for anything else."""
    match = _PIN.fullmatch(key.rpartition("/")[2])
    return Pin(int(match[1]), int(match[2]), int(match[3])) if match else None


def parse_checkpoint(key: str) -> tuple[int, bool] | None:
    """Read the number off a checkpoint's name, and whether it is a head; None for others."""
    match = _CHECKPOINT.fullmatch(key.rpartition("/")[2])
    return (int(match[1]), match[2] is None) if match else None


def parse_notice(key: str) -> int | None:
    """Read the number off a notice's name; None for anything else."""
    parsed = parse_checkpoint(key)
    return parsed[0] if parsed and parsed[1] else None
