"""The Java client, driven through one long-lived process (../java/Driver.java)."""

from typing import ClassVar

from tests.support.clients.driven import Driven
from tests.support.java import SOURCES, compiled


class JavaClient(Driven):
    """Subclasses name the version of kafka-clients."""

    title = "Java client"

    def command(self) -> list[str]:
        return compiled(SOURCES / "Driver.java", f"org.apache.kafka:kafka-clients:{self.version}")


class Java4(JavaClient):
    name = "java-4"
    version = "4.3.1"
    lacks = frozenset({"replacing settings"})


class Java2(JavaClient):
    name = "java-2.8"
    version = "2.8.2"
    lacks = frozenset({"max timestamp"})
    departures: ClassVar = {"idempotence": "`enable.idempotence=true`"}
