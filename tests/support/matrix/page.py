"""docs/clients.md: written by what was seen, read to compare with what is seen.

Two tables of cells; everything else on the page follows from the clients themselves. What is said
of Pulsar clients, their own tests show.
"""

from pathlib import Path
from typing import Final

from tests.support import fluvio_clients
from tests.support.clients import EVERYONE
from tests.support.clients.base import Client
from tests.support.matrix.cells import COLUMNS
from tests.support.pulsar_drivers import (
    GO_VERSION,
    JAVA_VERSIONS,
    NODE_VERSION,
    PYTHON_VERSION,
)

PATH: Final = Path(__file__).resolve().parents[3] / "docs" / "clients.md"
UNKNOWN: Final = "?"
ABSENT: Final = "n/a"

Table = dict[str, dict[str, str]]

INTRODUCTION: Final = """\
# Clients

Every cell is a run of that client against a broker, with the client's default settings unless
[said otherwise](#set-otherwise-than-by-default). `make test` runs them all again and fails when
a cell is not what this page says; `make clients` writes the page anew.

"""

MEANINGS: Final = """
- **produce**, **consume**: twenty records with keys, written by the client and read by
  confluent-kafka, and the other way round; keys, values and offsets must agree.
- **groups**: a member is given all four partitions of a topic, and reads what is there and what
  is written later, everything once.
- **rebalance**: a second member joins, each has two partitions, and both together read everything
  once; one leaves, and the other has four.
- **commit and resume**: a member reads and leaves, and the next reads only what was written since;
  the committed offsets are the ends of the partitions.
- **admin**: a topic is created, listed, given more partitions and a setting, and deleted; creating
  it twice is refused.
- **idempotence**: the batches carry a producer id, and sequences without a gap.
- **codecs**: each is stored as the client compressed it, and read by the client and by
  confluent-kafka.
"""

CROSSWISE: Final = """
## Everyone reads what everyone wrote

Rows read, columns write: five records plain, and five in every codec both have. The columns are
the clients by number.

"""


PULSAR: Final = f"""
## Pulsar clients

With their default settings (`tests/e2e/test_pulsar_clients.py`, `make test`). Each reads what each
other one and confluent-kafka wrote, and confluent-kafka reads what each wrote: keys, values, null,
properties and headers, event times, order. Writer and readers have the same message ids. All Kafka
clients above read what the Python client wrote, in every codec that they have, and it reads what
they wrote (`tests/e2e/test_matrix.py`).

| client | Exclusive, Shared, Failover, Key_Shared | schemas | null values |
|---|---|---|---|
| Java {JAVA_VERSIONS[0]} | yes | Avro, JSON, text | written and read |
| Java {JAVA_VERSIONS[1]} | yes | Avro, JSON, text | written and read |
| Python {PYTHON_VERSION} | yes | Avro, JSON, text | written; read as empty |
| Go {GO_VERSION} | yes | Avro, JSON | written and read as empty |
| Node, pulsar-flex {NODE_VERSION} | yes | it has none | read; it cannot write them |

The Java and Go clients also do these, one after the other (`tests/e2e/test_pulsar_languages.py`;
the Python client in `tests/e2e/test_pulsar_features.py`): redelivery, negative acknowledgement,
dead letters and retries, parts of batches, seek by id and time, readers, table views, partitions
that are added, topics by pattern, hashes that consumers choose, chunks, delays, every compression,
producers that want a topic for themselves. Python, Java {JAVA_VERSIONS[0]} and Go write to and read
from a fleet whose brokers leave and die (`tests/e2e/test_pulsar_fleet.py`).

The Go client leaves out an entry without any payload: a null or empty message that was not sent in
a batch.

pulsar-flex is made of JavaScript alone (`tests/e2e/test_pulsar_node.py`). It writes values and
properties, one by one and in batches, and reads what the Python client and confluent-kafka wrote.
It cannot write keys, event times and null, and its new subscriptions begin at the end of a topic.
The official Node client (npm pulsar-client 1.18.0) could not be had and is not tried: its
installation fetches a library from outside the npm registry.
"""


FLUVIO: Final = """
## Clients of Fluvio

They come in by [another door](protocols/fluvio.md) to the same topics, with their default settings.
Each reads what each of them, confluent-kafka and the Python client of Pulsar wrote, and these two
read what they wrote: null keys, null values and headers included. All of them read on behind holes,
and see nothing of aborted transactions.

"""


def _fluvio_table() -> str:
    lines = [f"| client | {' | '.join(fluvio_clients.COLUMNS)} |"]
    lines.append("|---" * (1 + len(fluvio_clients.COLUMNS)) + "|")
    for name, cells in fluvio_clients.TRIED.items():
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def label(client: type[Client]) -> str:
    return f"{client.title} {client.version}"


class Page:
    """The cells of both tables, by the names of clients and columns."""

    def __init__(self, features: Table, crosswise: Table) -> None:
        self.features = features
        self.crosswise = crosswise

    @staticmethod
    def load() -> "Page":
        lines = PATH.read_text().splitlines() if PATH.exists() else []
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        # Rows of the second table are known by their number of cells.
        width = 1 + len(EVERYONE)
        return Page(
            _cells([row for row in rows if len(row) == 1 + len(COLUMNS)], list(COLUMNS)),
            _cells([row for row in rows if len(row) == width], list(EVERYONE)),
        )

    def save(self) -> None:
        PATH.write_text(self.text())

    def text(self) -> str:
        features = _table("client", list(COLUMNS), self.features)
        numbers = [str(n) for n in range(1, 1 + len(EVERYONE))]
        crosswise = _table("reader", numbers, self.crosswise)
        kafka = INTRODUCTION + features + MEANINGS + _departures() + _absences()
        return kafka + CROSSWISE + crosswise + PULSAR + FLUVIO + _fluvio_table()


def _cells(rows: list[list[str]], columns: list[str]) -> Table:
    known = {label(client): name for name, client in EVERYONE.items()}
    table: Table = {name: dict.fromkeys(columns, UNKNOWN) for name in EVERYONE}
    for first, *cells in rows:
        name = known.get(first.partition(". ")[2])
        if name is not None:
            table[name] = dict(zip(columns, cells, strict=True))
    return table


def _table(corner: str, columns: list[str], table: Table) -> str:
    lines = [f"| {corner} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for number, (name, client) in enumerate(EVERYONE.items(), 1):
        lines.append(f"| {number}. {label(client)} | {' | '.join(table[name].values())} |")
    return "\n".join(lines) + "\n"


def _departures() -> str:
    lines = [
        "",
        "## Set otherwise than by default",
        "",
        "Every client is told the address, the codec where one is tried, the partition to write",
        "to where it can choose one, to begin at the start of a topic, and how long to wait. Those",
        "that log to standard output are told not to. The broker is at its defaults but for",
        "`consumer.initialRebalanceDelayMs: 0`, which saves the tests three seconds per group.",
        "",
    ]
    return "\n".join([*lines, *_notes("departures")]) + "\n"


def _absences() -> str:
    lines = ["", "## What a client does not have", ""]
    return "\n".join([*lines, *_notes("absent")]) + "\n"


def _notes(what: str) -> list[str]:
    lines = []
    for client in EVERYONE.values():
        notes: dict[str, list[str]] = {}
        for column, note in getattr(client, what).items():
            notes.setdefault(note, []).append(column)
        told = "; ".join(f"{', '.join(columns)}: {note}" for note, columns in notes.items())
        if told:
            lines.append(f"- {label(client)}: {told}.")
    return lines
