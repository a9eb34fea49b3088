"""The command line as a whole: exit codes, and one line for whatever goes wrong."""

import argparse
import subprocess
import sys
from collections.abc import Callable

import pytest

from kafscale import __version__
from kafscale.cli import main as cli
from kafscale.cli.serving import serve
from kafscale.cli.terminal.errors import CommandError, UsageError
from kafscale.model.errors import KafscaleError, StoreUnavailable
from kafscale.settings.values import ConfigError


@pytest.fixture
def serve_raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    def arrange(error: BaseException) -> None:
        def run(args: argparse.Namespace) -> int:
            raise error

        monkeypatch.setattr(serve, "run", run)

    return arrange


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CommandError("it broke"), 1, "it broke"),
        (UsageError("not like that"), 2, "not like that"),
        (ConfigError("broker.port: no"), 2, "broker.port: no"),
        (StoreUnavailable("bucket\n  gone"), 1, "bucket gone"),
        (StoreUnavailable(), 1, "StoreUnavailable"),
        (FileNotFoundError(2, "No such file", "x.txt"), 1, "x.txt: No such file"),
        (ZeroDivisionError("oops"), 1, "unexpected ZeroDivisionError: oops (--debug shows where)"),
    ],
)
def test_whatever_goes_wrong_is_one_line_and_an_exit_code(
    serve_raises: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    line: str,
) -> None:
    serve_raises(error)
    assert cli.main(["serve"]) == code
    assert capsys.readouterr().err == f"kafscale: {line}\n"


@pytest.mark.parametrize("words", [["--debug", "serve"], ["serve", "--debug"]])
def test_debug_shows_where_it_came_from(
    serve_raises: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    serve_raises(CommandError("it broke"))
    assert cli.main(words) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_silent_and_130(
    serve_raises: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    serve_raises(KeyboardInterrupt())
    assert cli.main(["serve"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "the following arguments are required: COMMAND (see kafscale --help)"),
        (["fly"], "invalid choice: 'fly'"),
        (["serve", "--wings"], "unrecognized arguments: --wings"),
        (["topics", "create"], "TOPIC (see kafscale topics create --help)"),
        (["serve", "--set", "x"], "--set: expected KEY=VALUE, found 'x'"),
        (["serve", "--port", "x"], "--port: expected an integer from 0 to 65535, found 'x'"),
        (["produce", "t", "-H", "x"], "--header: expected NAME=VALUE, found 'x'"),
        (["produce", "t", "-k", ""], "--key-separator: expected at least one character"),
        (["produce", "t", "-p", "-1"], "--partition: expected 0 to 2147483647, found -1"),
        (
            ["produce", "t", "-p", "2147483648"],
            "--partition: expected 0 to 2147483647, found 2147483648",
        ),
        (
            ["topics", "alter", "t", "-p", "5000000000"],
            "--partitions: expected 1 to 2147483647, found 5000000000",
        ),
        (["consume", "t", "--count", "0"], "--count: expected 1 or more, found 0"),
        (["consume", "t", "--format", "%x"], "--format: expected %t"),
        (["topics", "create", "t", "-p", "0"], "--partitions: expected 1 to 2147483647, found 0"),
        (
            ["sql", "select 1", "--store", "s3://b", "--rows", "-5"],
            "--rows: expected 0 or more, found -5",
        ),
        (["topics", "create", "t", "-c", "=1"], "--topic-config: expected KEY=VALUE"),
        (["topics", "list", "-b", "nowhere"], "--bootstrap: expected HOST:PORT, found 'nowhere'"),
    ],
)
def test_a_mistake_in_the_call_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], words: list[str], part: str
) -> None:
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("kafscale: ")
    assert part in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: kafscale {command}" in capsys.readouterr().out


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"kafscale {__version__}\n"


def test_help_loads_neither_the_broker_nor_a_kafka_client() -> None:
    check = (
        "import sys\nfrom kafscale.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'confluent_kafka', 'obstore', 'rich', 'kafscale.broker'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_broker_starts_without_the_library_for_colours() -> None:
    check = (
        "import sys\nfrom kafscale.cli.main import main\n"
        "assert main(['serve', '--set', 'unheard.of=1']) == 2\n"
        "import kafscale.broker.main\n"
        "print([name for name in ('rich', 'pygments') if name in sys.modules])\n"
        "import rich"  # progress bars still get it
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "[]\n"), ran.stderr


def test_an_error_that_points_at_a_place_keeps_its_lines() -> None:
    class Pointing(KafscaleError):
        keeps_lines = True

    assert cli._one_line(Pointing("bad\nselect \x1b\n---^^^")) == "bad\nselect \\x1b\n---^^^"
    assert cli._one_line(KafscaleError("two\nlines")) == "two lines"


def test_a_library_that_dies_at_exit_does_not_change_the_exit_code() -> None:
    """`deltalake` can: its threads may still run when Python ends."""
    script = """
import ctypes, sys, types
from kafscale.cli import main as cli
from kafscale.cli.serving import serve
c = ctypes.CDLL(None)
c.__cxa_atexit(c.abort, None, None)  # called after all that Python does at exit
sys.modules["deltalake"] = types.ModuleType("deltalake")
serve.run = lambda args: print("committed") or 7
sys.argv = ["kafscale", "serve"]
sys.exit(cli.main())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (7, b"committed\n")
