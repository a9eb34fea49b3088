"""franz-go's own tests of SCRAM, and its tests of brokers over TLS with a client's certificate.

The module of the Go proxy has its tests with it. They are built once, by `make compat`; `make test`
runs what was built. Next door: which of them pass (franz_go.txt).
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.compat import cases
from tests.support.clients.go import SOURCES
from tests.support.golang import go_build
from tests.support.maven import CACHE, Unavailable
from tests.support.secured import ADMIN, ADMIN_PASSWORD, SecuredProcess

LISTED: Final = "franz_go.txt"
_PACKAGE: Final = "github.com/twmb/franz-go/pkg/kgo"
_WITHIN_S: Final = 300


def _file() -> Path:
    wanted = re.search(r"twmb/franz-go (v[\d.]+)", (SOURCES / "go.mod").read_text())
    assert wanted is not None
    return CACHE / "compat" / f"franz-go-{wanted[1]}.test"


def program() -> str:
    """The tests as a program. Raises Unavailable where they were not built."""
    if not _file().exists():
        raise Unavailable("the tests of franz-go are not built: make compat")
    return str(_file())


def build() -> None:
    """Build them. Raises Unavailable."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("go is not installed")
    if not _file().exists():
        _file().parent.mkdir(parents=True, exist_ok=True)
        go_build([go, "test", "-c", "-o", str(_file()), _PACKAGE], SOURCES)


def run(broker: SecuredProcess) -> tuple[dict[str, str], str]:
    """The outcome of each listed test, PASS if it is good, and all that they said."""
    own = broker.authority.issue("alice")
    env = {
        "KGO_SEEDS": broker.at("MUTUAL"),
        "KGO_TEST_TLS": f"ca:{broker.authority.file},cert:{own.certificate},key:{own.key}",
        "KGO_TEST_SCRAM": f"{ADMIN}:{ADMIN_PASSWORD}:512",
        "KGO_TEST_SCRAM_SEEDS": broker.at("SASL_PLAINTEXT"),
        "KGO_TEST_RF": "1",
        "KGO_LOG_LEVEL": "none",
    }
    names = cases.lines(LISTED)
    done = subprocess.run(
        [program(), "-test.v", "-test.run", f"^({'|'.join(names)})$", "-test.parallel", "4"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    told = {name: outcome for outcome, name in re.findall(r"(?m)^--- (\w+): (\w+)", done.stdout)}
    return {name: told.get(name, "did not run") for name in names}, done.stdout + done.stderr
