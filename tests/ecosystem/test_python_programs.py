"""Stream processors and task queues in Python, each in an environment of its own."""

import os
from pathlib import Path

import pytest

from tests.ecosystem.running import Running, eventually, newest_values
from tests.ecosystem.test_streams import counted, lines
from tests.ecosystem.trials import tried
from tests.support.broker import KafscaleProcess
from tests.support.clients.base import Record
from tests.support.clients.confluent import Confluent
from tests.support.maven import Unavailable
from tests.support.venv import python_with

PROGRAMS = Path(__file__).parent / "programs"
QUIX = "3.28.1"
FAUST = "0.15.3"
BYTEWAX = "0.21.1"
CELERY = "5.7.0"


def python_or_skip(*packages: str) -> str:
    try:
        return python_with(*packages)
    except Unavailable as reason:
        pytest.skip(str(reason))


def fill(broker: KafscaleProcess, some: list[str]) -> None:
    """Lines go to one partition: each of these programs counts per partition."""
    records = [Record(0, None, line.encode()) for line in some]
    Confluent(broker.bootstrap).produce("lines", records)


def prepare(broker: KafscaleProcess, partitions: int = 1) -> None:
    client = Confluent(broker.bootstrap)
    client.create_topic("lines", partitions)
    client.create_topic("counts", partitions)


def environment(broker: KafscaleProcess, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "BOOTSTRAP": broker.bootstrap, "PYTHONPATH": str(PROGRAMS), **more}


@tried(
    "Quix Streams",
    QUIX,
    "a word count with state in a changelog topic; a second instance restores it; counts are exact",
)
def test_quix(broker: KafscaleProcess, tmp_path: Path) -> None:
    python = python_or_skip(f"quixstreams=={QUIX}")
    prepare(broker)
    sent: list[str] = []
    for part in range(2):
        more = lines(part * 100, 100)
        fill(broker, more)
        sent += more
        program = [python, str(PROGRAMS / "quix_count.py"), broker.bootstrap]
        state, output = tmp_path / f"state-{part}", tmp_path / f"{part}.txt"
        with Running([*program, str(state)], output, environment(broker)) as running:

            def agrees() -> bool:
                pairs = newest_values(broker.bootstrap, "counts").items()
                counts = {key: (value or b"").split()[0] for key, value in pairs}
                return counts == counted(sent)  # noqa: B023 - the loop waits for it

            eventually(running, agrees)
            assert running.end() == 0, running.said()


@tried("Faust", f"(faust-streaming) {FAUST}", "a word count in a table with a changelog topic")
def test_faust(broker: KafscaleProcess, tmp_path: Path) -> None:
    python = python_or_skip(f"faust-streaming=={FAUST}")
    prepare(broker, partitions=4)
    sent = lines(0, 200)
    command = [python, "-m", "faust", "-A", "faust_count", "worker", "-l", "info", "--without-web"]
    env = environment(broker, STATE=str(tmp_path / "state"))
    with Running(command, tmp_path / "faust.txt", env) as running:
        eventually(running, lambda: "Worker ready" in running.said())
        fill(broker, sent)
        eventually(running, lambda: newest_values(broker.bootstrap, "counts") == counted(sent))


@tried("Bytewax", BYTEWAX, "a dataflow counts the words of a topic into another one")
def test_bytewax(broker: KafscaleProcess, tmp_path: Path) -> None:
    python = python_or_skip(f"bytewax[kafka]=={BYTEWAX}")
    prepare(broker)
    sent = lines(0, 200)
    fill(broker, sent)
    command = [python, "-m", "bytewax.run", "bytewax_count"]
    with Running(command, tmp_path / "bytewax.txt", environment(broker)) as running:
        eventually(running, lambda: newest_values(broker.bootstrap, "counts") == counted(sent))


@tried("Celery", f"{CELERY} (transport confluentkafka)", "a worker does 50 tasks, each once")
def test_celery(broker: KafscaleProcess, tmp_path: Path) -> None:
    python = python_or_skip(f"celery=={CELERY}", "kombu[confluentkafka]")
    results = tmp_path / "results"
    results.mkdir()
    env = environment(broker, RESULTS=str(results))
    send = "import celery_tasks\nfor n in range(50): celery_tasks.write.delay(n)"
    with Running([python, "-c", send], tmp_path / "send.txt", env) as sending:
        assert sending.process.wait(60) == 0, sending.said()
    command = [python, "-m", "celery", "-A", "celery_tasks", "worker", "--pool", "solo"]
    with Running(command, tmp_path / "celery.txt", env) as running:
        wanted = {str(number) for number in range(50)}
        eventually(running, lambda: {path.name for path in results.iterdir()} == wanted)
