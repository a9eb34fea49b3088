"""Commands that the console runs beside itself: SQL, jobs of the pipeline, the state of tables.

Here: one child process for each, at low priority, with the store's credentials and no other secret
in its environment. It ends with the console, with the request that asked for it, or when its time
is up. Next door: the commands (cli/bucket), who asks (console/pages).
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import IO, Final

import structlog

from kafscale.console.answers.refusals import ApiRefusal
from kafscale.local.child import dying_with
from kafscale.settings.config import Config

logger = structlog.get_logger()

_LOOK_S: Final = 0.5
_LONGEST_LINE: Final = 4 << 20
_MOST_ERRORS: Final = 64 << 10
_NICE: Final = "10"
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR", "TZ", "JAVA_HOME", "VIRTUAL_ENV")
_CREDENTIALS: Final = ("AWS_", "GOOGLE_", "AZURE_", "KAFSCALE_S3_")


class CommandChildren:
    """Runs `kafscale` commands on the configured bucket."""

    def __init__(self, config: Config) -> None:
        place = (
            config.s3.url
            if config.store_kind == "s3"
            else f"file://{config.objects_dir.absolute()}"
        )
        self._store = f"{place}/{config.storage.namespace}"

    async def lines(self, words: tuple[str, ...], within_s: float) -> AsyncIterator[bytes | None]:
        """Run a command and yield what it prints, line by line; None: nothing for a while."""
        command = [sys.executable, "-m", "kafscale.cli.main", *words, "--store", self._store]
        with tempfile.TemporaryFile() as errors:
            child = await asyncio.create_subprocess_exec(
                "nice", "-n", _NICE, *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment(os.environ),
                limit=_LONGEST_LINE,
                start_new_session=True,
                preexec_fn=dying_with(os.getpid()),
            )  # fmt: skip
            assert child.stdout is not None
            try:
                async for line in _each_line(child.stdout, within_s):
                    yield line
                status = await child.wait()
                if status:
                    raise ApiRefusal("refused", _why(_tail(errors), status))
            finally:
                with contextlib.suppress(ProcessLookupError):  # Spark is a further process
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a child is told: where programs are, and how to get into the store."""
    return {
        name: value
        for name, value in given.items()
        if name in _PASSED_ON or name.startswith(_CREDENTIALS)
    }


async def _each_line(stream: asyncio.StreamReader, within_s: float) -> AsyncIterator[bytes | None]:
    deadline_s = asyncio.get_running_loop().time() + within_s
    while True:
        try:
            async with asyncio.timeout(_LOOK_S):
                line = await stream.readline()
        except TimeoutError:
            if asyncio.get_running_loop().time() > deadline_s:
                raise ApiRefusal("timeout", "it took too long and was stopped") from None
            yield None
            continue
        except ValueError as bad:
            raise ApiRefusal("too_large", "a row is too large") from bad
        if not line:
            return
        yield line


def _tail(file: IO[bytes]) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_ERRORS))
    return file.read()


def _why(said: bytes, status: int) -> str:
    """The sentence with which a command ends."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    at = next((at for at, line in enumerate(lines) if line.startswith("kafscale: ")), None)
    if at is None:
        logger.warning("console_command_failed", status=status, said=lines[-1] if lines else "")
        return f"the command ended with status {status}; the console's log says why"
    return "\n".join(lines[at:]).removeprefix("kafscale: ")[:2000]
