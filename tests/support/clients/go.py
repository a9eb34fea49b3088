"""Clients in Go: one program for both (../go)."""

from pathlib import Path
from typing import ClassVar

from tests.support.clients.driven import Driven
from tests.support.golang import go_program

SOURCES = Path(__file__).parents[1] / "go"


def _version(module: str) -> str:
    """The version in go.mod, without its leading v."""
    words = (SOURCES / "go.mod").read_text().split()
    return words[words.index(module) + 1].removeprefix("v")


class FranzGo(Driven):
    name = "franz-go"
    title = "franz-go"
    version = _version("github.com/twmb/franz-go")
    lacks = frozenset({"commits"})
    departures: ClassVar = {
        "commit and resume": "polled once more before it leaves: it commits what came before"
    }
    default_codec = "snappy"

    def command(self) -> list[str]:
        return [go_program(SOURCES), "franz"]


class Sarama(Driven):
    name = "sarama"
    title = "sarama"
    version = _version("github.com/IBM/sarama")
    lacks = frozenset({"commits"})
    departures: ClassVar = {
        "idempotence": "`Producer.Idempotent`, with the two settings it then insists on"
    }

    def command(self) -> list[str]:
        return [go_program(SOURCES), "sarama"]
