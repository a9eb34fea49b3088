"""What the requests and responses about objects travel in: the kind of object, then its bytes."""

from typing import Final

from kafscale.model.buffers import Buffer
from kafscale.wire.fluvio import schema
from kafscale.wire.fluvio.schema import FluvioTable, RecordSetBytes

VERSIONS: Final = range(11, 20)


class ObjectEnvelope(FluvioTable, frozen=True):
    """Fluvio calls it a type buffer: a label and a payload with its length in front."""

    label: str = ""
    payload: RecordSetBytes = ()


def sealed(label: str, payload: FluvioTable, version: int) -> ObjectEnvelope:
    """An envelope around a payload."""
    pieces: list[Buffer] = schema.encode(payload, version)
    return ObjectEnvelope(label, pieces)
