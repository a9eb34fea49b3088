"""kafkajs: JavaScript without native code (../js)."""

import json
from pathlib import Path
from typing import ClassVar

from tests.support.clients.driven import Driven
from tests.support.npm import node_program

SOURCES = Path(__file__).parents[1] / "js"


class KafkaJs(Driven):
    name = "kafkajs"
    title = "kafkajs"
    version = json.loads((SOURCES / "package.json").read_text())["dependencies"]["kafkajs"]
    lacks = frozenset({"commits"})
    departures: ClassVar = {"idempotence": "`idempotent: true`"}
    absent: ClassVar = dict.fromkeys(("snappy", "lz4", "zstd"), "only with further packages")

    def command(self) -> list[str]:
        return node_program(SOURCES / "driver.js")
