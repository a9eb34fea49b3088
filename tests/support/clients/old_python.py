"""Clients in Python that cannot be installed beside each other: programs in ../python."""

from pathlib import Path
from typing import ClassVar

from tests.support.clients.driven import Driven
from tests.support.java import on_the_jvm
from tests.support.maven import classpath
from tests.support.venv import folder_with, python_with

PROGRAMS = Path(__file__).parents[1] / "python"

ALONE = "members of a group came with 1.0"
LINGER = "`linger_ms=100`, else it holds records back for five seconds"
MANAGED = "`managed=True`, else it looks for ZooKeeper"
NO_ADMIN = "it can only list"
NO_IDEMPOTENCE = "its producer has no id"
UNKNOWN_CODEC = "it does not know it"
JYTHON = "org.python:jython-standalone:2.7.4"


class KafkaPython2(Driven):
    name = "kafka-python-2"
    title = "kafka-python"
    version = "2.3.3"
    lacks = frozenset({"commits"})
    departures: ClassVar = {"idempotence": "`enable_idempotence=True`"}

    def command(self) -> list[str]:
        packages = ("python-snappy==0.7.3", "lz4==4.4.5", "xxhash==4.1.0", "zstandard==0.25.0")
        python = python_with(f"kafka-python=={self.version}", *packages)
        return [python, "-W", "ignore", str(PROGRAMS / "kafka_python.py")]


class KafkaPython14(KafkaPython2):
    name = "kafka-python-1.4"
    version = "1.4.7"
    departures: ClassVar = {}
    absent: ClassVar = {"idempotence": NO_IDEMPOTENCE, "zstd": UNKNOWN_CODEC}


class KafkaPython09(Driven):
    name = "kafka-python-0.9"
    title = "kafka-python"
    version = "0.9.5"
    lacks = frozenset({"commits"})
    absent: ClassVar = {
        "groups": ALONE,
        "rebalance": ALONE,
        "admin": NO_ADMIN,
        "idempotence": NO_IDEMPOTENCE,
        "snappy": "needs a C library, which Jython cannot load",
        "lz4": UNKNOWN_CODEC,
        "zstd": UNKNOWN_CODEC,
    }
    departures: ClassVar = {
        "every column": "it runs on Jython 2.7.4, with an empty module for `multiprocessing`",
        "commit and resume": "`commit()` is called: it does not by itself",
    }

    def command(self) -> list[str]:
        packages = folder_with(f"kafka-python=={self.version}", "six==1.17.0")
        words = [f"-Dpython.path={packages}", "org.python.util.jython"]
        return on_the_jvm(classpath(JYTHON), *words, str(PROGRAMS / "kafka_python_09.py"))


class PyKafka(Driven):
    name = "pykafka"
    title = "pykafka"
    version = "2.8.0"
    lacks = frozenset({"commits"})
    absent: ClassVar = {
        "admin": NO_ADMIN,
        "idempotence": NO_IDEMPOTENCE,
        "zstd": UNKNOWN_CODEC,
    }
    departures: ClassVar = {
        "produce": LINGER,
        "codecs": LINGER,
        "groups": MANAGED,
        "rebalance": MANAGED,
        "commit and resume": "the same, and `commit_offsets()` is called: it does not by itself",
    }

    def command(self) -> list[str]:
        packages = ("setuptools==80.9.0", "python-snappy==0.7.3", "lz4==4.4.5", "xxhash==4.1.0")
        python = python_with(f"pykafka=={self.version}", *packages)
        return [python, "-W", "ignore", str(PROGRAMS / "pykafka_driver.py")]
