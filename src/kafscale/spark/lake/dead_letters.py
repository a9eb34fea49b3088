"""Records that could not be read, written down beside the table, each once.

Dead letters are committed before the table, with progress of their own under the name of the
schema they were judged by. A crash between the two commits leaves them ahead of the table; the
next export comes to the same verdicts and writes down only those beyond. With another schema the
verdicts may differ, so its progress is another.
Next door: the verdicts (unit.py), the table's own commit (jobs/export.py).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafscale.log.protocol.commits import LostRace
from kafscale.spark.lake import schemas
from kafscale.spark.lake.table import Table
from kafscale.spark.lake.unit import ExportedFiles
from kafscale.spark.lake.writer import DataFile, PartitionedWriter
from kafscale.spark.values.formats import Spec
from kafscale.system import SystemDice

ATTEMPTS: Final = 20


def commit(
    table: Table,
    spec: Spec,
    names: Mapping[int, str],
    after: Mapping[str, int],
    results: Sequence[ExportedFiles],
    round_name: str,
) -> list[DataFile]:
    """Commit the dead letters that are not committed yet; return their files.

    `names` are the partitions' names in the table's progress, `after` where it will be.
    """
    files = [file for result in results for file in result.dead]
    if not files:
        return []
    dead = table.dead_letters()
    dead.prepare(schemas.DEAD, "none")
    judged = {partition: f"{name}/{spec.digest}" for partition, name in names.items()}
    for _ in range(ATTEMPTS):
        known = dead.progress(judged.values())
        before = {name: known.get(name, 0) for name in judged.values()}
        until = {
            judged[partition]: max(after[name], before[judged[partition]])
            for partition, name in names.items()
        }
        floors = {partition: before[name] for partition, name in judged.items()}
        if until == before:
            return []
        fresh = [new for file in files for new in _beyond(dead, file, floors, round_name)]
        try:
            dead.commit(fresh, before, until)
            return fresh
        except LostRace:
            continue
    raise LostRace("the dead letters are being written by too many others")


def _beyond(
    dead: Table, file: DataFile, floors: Mapping[int, int], round_name: str
) -> list[DataFile]:
    """The file, or what of it lies beyond what the table of dead letters has."""
    if file.offsets[0] >= max(floors.values()):
        return [file]
    rows = pq.read_table(pa.BufferReader(dead.place.read(file.path)), schema=schemas.DEAD)
    least = pa.array([floors[at] for at in rows.column("_partition").to_pylist()], pa.int64())
    rest = rows.filter(pc.greater_equal(rows.column("_offset"), least))
    if rest.num_rows == rows.num_rows:
        return [file]
    token = f"{round_name}-{SystemDice().token(8).hex()}"
    writer = PartitionedWriter(dead.place.put_new, schemas.DEAD, token=token, folder=dead.folder)
    for some in rest.to_batches():
        writer.write(some)
    return writer.close()
