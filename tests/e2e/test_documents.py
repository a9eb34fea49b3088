"""What the documents tell people to type is typed here, and must print what they say.

Fenced blocks are taken by their language:

    console   lines after "$ " are commands, the others what they print; "..." stands for anything
    python    a program that must end without an error
    yaml      a configuration that must load
    sh        make targets, which must exist

Every document gets a fresh broker. A block that contains `kafscale serve` gets that one instead.
Ports and addresses of the documents are replaced by free ones.
"""

import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from kafscale.proxy import settings as proxy_settings
from kafscale.settings.loading import load
from tests.support import debian, etcd, seaweed
from tests.support.broker import KafscaleProcess
from tests.support.maven import Unavailable

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND_WITHIN_S = 300  # a command that runs on Spark starts a JVM


@dataclass(frozen=True)
class Block:
    """One fenced piece of a document."""

    document: Path
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.number}"


def blocks(*languages: str) -> list[Block]:
    return [
        Block(document, number, language, text)
        for document in DOCUMENTS
        for number, (language, text) in enumerate(FENCE.findall(document.read_text("utf-8")), 1)
        if language in languages
    ]


RUNNABLE = {
    document: list(group)
    for document, group in groupby(blocks("console", "python"), lambda b: b.document)
}


@dataclass(frozen=True)
class Place:
    """Where a document's commands run: a folder, an environment, words to replace."""

    folder: Path
    environment: dict[str, str]
    replaced: dict[str, str]

    def here(self, text: str) -> str:
        for word, other in self.replaced.items():
            text = text.replace(word, other)
        return text

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_WITHIN_S,
            check=False,
        )


def place_for(broker: KafscaleProcess, folder: Path, more: dict[str, str]) -> Place:
    folder.mkdir(exist_ok=True)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(sys.prefix)
    environment = {
        **os.environ,
        **broker.environment(),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KAFSCALE_BOOTSTRAP": broker.bootstrap,
        "KAFSCALE_PULSAR_PORT": "0",  # of brokers that the reader starts beside this one
    }
    ports = {
        "127.0.0.1:9092": broker.bootstrap,
        "127.0.0.1:9093": f"127.0.0.1:{broker.metrics_port}",
        # where `make run` keeps its objects
        "--store ./data": f"--store {broker.data}",
        'load("./data")': f'load("{broker.data}")',
    }
    return Place(folder, environment, {**ports, **more})


class ServedAsWritten(KafscaleProcess):
    """A broker started by the very command of a document, the exports before it included."""

    def __init__(self, folder: Path, script: str) -> None:
        super().__init__(folder)
        self._script = script

    def command(self) -> list[str]:
        script = re.sub(r"kafscale serve", "exec kafscale serve", self._script)
        return ["bash", "-euc", script.replace("127.0.0.1:9092", self.bootstrap)]

    def answers(self) -> bool:
        """Where the document says how clients come in, that a listener answers must do."""
        if "--listeners" not in self._script:
            return super().answers()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def environment(self) -> dict[str, str]:
        ours = super().environment()
        ours.pop("KAFSCALE_DATA_DIR")  # the document's own, or ./data in the folder
        if "--listeners" in self._script:
            ours.pop("KAFSCALE_BROKER_PORT")
        return {**ours, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with what it should print."""
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = step.partition("\n")
        yield command, printed


def as_pattern(printed: str) -> str:
    """Turn the output a document shows into a pattern; "..." stands for anything, also nothing."""
    return re.escape(printed.rstrip("\n")).replace(re.escape("..."), "(?s:.*)")


def need(text: str) -> None:
    """Skip, saying why, where a program that a block uses cannot be had."""
    if re.search(r"\bkcat\b", text):
        try:
            debian.program("kcat")
        except Unavailable as why:
            pytest.skip(f"kcat: {why}")
    if "kafscale cluster up" in text and (reason := etcd.missing()):
        pytest.skip(reason)


def check_console(block: Block, place: Place) -> None:
    kept = ""  # what a reader's shell remembers from one command to the next
    for command, printed in steps(block.text):
        ran = place.run(["bash", "-euo", "pipefail", "-c", kept + place.here(command)])
        assert ran.returncode == 0, f"{block}: $ {command}\n{ran.stdout}{ran.stderr}"
        assert re.fullmatch(as_pattern(place.here(printed)), ran.stdout.rstrip("\n")), (
            f"{block}: $ {command}\nprinted:\n{ran.stdout}\ninstead of:\n{printed}"
        )
        if command.startswith((". ", "export ")):
            kept += f"{place.here(command)}\n"


def check_serving(block: Block, folder: Path, more: dict[str, str]) -> None:
    """Start what the block starts, then run the rest of the block against it."""
    before, serve, after = re.split(r"^(\$ kafscale serve.*\n)", block.text, flags=re.MULTILINE)
    script = re.sub(r"^\$ ", "", before + serve, flags=re.MULTILINE)
    for word, other in more.items():
        script = script.replace(word, other)
    with ServedAsWritten(folder, script) as broker:
        rest = Block(block.document, block.number, block.language, after)
        check_console(rest, place_for(broker, folder, more))


def check(block: Block, place: Place, folder: Path, more: dict[str, str]) -> None:
    if "$ kafscale serve" in block.text:
        check_serving(block, folder / f"block-{block.number}", more)
    elif block.language == "console":
        check_console(block, place)
    else:
        ran = place.run([sys.executable, "-c", place.here(block.text)])
        assert ran.returncode == 0, f"{block}:\n{ran.stdout}{ran.stderr}"


@pytest.mark.parametrize("document", RUNNABLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_document_do_what_it_says(
    document: Path, tmp_path: Path, seaweed_server: seaweed.SeaweedServer
) -> None:
    need("\n".join(block.text for block in RUNNABLE[document]))
    # Documents share a server, and a namespace belongs to one cluster.
    bucket = f"KAFSCALE_S3_BUCKET={seaweed.BUCKET} KAFSCALE_S3_NAMESPACE=d{uuid.uuid4().hex}"
    more = {
        "http://127.0.0.1:8333": seaweed_server.endpoint,
        "KAFSCALE_S3_BUCKET=kafscale": bucket,
        "my-access-key": seaweed.ACCESS_KEY,
        "my-secret-key": seaweed.SECRET_KEY,
    }
    with KafscaleProcess(tmp_path / "broker") as broker:
        place = place_for(broker, tmp_path / "reader", more)
        try:
            for block in RUNNABLE[document]:
                check(block, place, tmp_path, more)
        finally:
            if (place.folder / "kafscale-cluster").exists():  # left by a page that went wrong
                place.run([sys.executable, "-m", "kafscale.cli.main", "cluster", "stop"])


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_configurations_in_documents_load(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(block.text, "utf-8")
    if block.document.name == "proxy.md":
        nothing = tmp_path / "nothing.yaml"
        nothing.write_text("{}", "utf-8")
        loaded, default = (
            proxy_settings.load(path, "localhost:9092", None) for path in (file, nothing)
        )
        assert loaded != default
        return
    assert load(file, {}, {}) != load(None, {}, {})


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_make_targets_in_documents_exist(block: Block) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = block.text.splitlines()
    assert lines
    for line in lines:
        make, target, *_ = line.split()
        assert make == "make"
        assert target in targets


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)} -> {target}"
        for document in [*DOCUMENTS, ROOT / "CHANGELOG.md"]
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8"))
        if not target.startswith("https://") and not (document.parent / target).exists()
    ]
    assert broken == []


def test_there_is_something_to_run() -> None:
    assert {"README.md", "running.md", "connecting.md"} <= {path.name for path in RUNNABLE}
