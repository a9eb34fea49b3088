"""kafka-python's integration tests, from its source archive, with the part that it leaves out.

In this room: unpacking, one run of pytest in a process of its own, what became of each test.
Next door: which tests must pass (kafka_python.txt), the check (test_kafka_python.py).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from pathlib import Path

from tests.compat import sources
from tests.support.process import BrokerProcess
from tests.support.program import dying_with_us

VERSION = "3.0.12"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
# What the client makes of the versions we offer; its tests want to be told the same.
CLAIMED_VERSION = "4.2"
DEADLINE_S = 900

# test/service.py is not in the archive. Of its two classes only this one is used with a broker
# that is already there.
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("tests run against a broker that is already there")
"""


def tests() -> Path:
    """The folder that holds kafka-python's `test` package, filled at the first call."""
    with sources.locked(f"kafka-python-{VERSION}") as folder:
        service = folder / "test" / "service.py"
        if not service.exists():
            archive = sources.pypi(f"kafka-python=={VERSION}", folder, SHA256)
            shutil.rmtree(folder / "test", ignore_errors=True)  # what an interrupted call left
            sources.unpack(archive, f"kafka_python-{VERSION}/test", folder / "test")
            archive.unlink()
            (folder / "test" / "__init__.py").touch()
            (folder / "pytest.ini").write_text("[pytest]\n")
            service.write_text(SERVICE)
        binaries = folder / "servers" / CLAIMED_VERSION / "kafka-bin"
        binaries.mkdir(parents=True, exist_ok=True)
    return folder


def run(broker: BrokerProcess, *which: str) -> dict[str, str]:
    """Run tests, all or those named; name -> "passed", or why not."""
    folder = tests()
    with tempfile.TemporaryDirectory(prefix="kafka-python-") as name:
        report = Path(name) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "-q", "--timeout=120"]
        command += ["-p", "no:cacheprovider", f"--junit-xml={report}", f"--basetemp={name}/tmp"]
        command += [f"test/integration/{each}" for each in which] or ["test/integration"]
        ran = subprocess.run(
            dying_with_us(command),
            cwd=folder,
            env={
                **{key: value for key, value in os.environ.items() if "PYTEST" not in key},
                "KAFKA_URI": f"kafka://{broker.bootstrap}",
                "KAFKA_VERSION": CLAIMED_VERSION,
                "PROJECT_ROOT": str(folder),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"kafka-python's tests did not run:\n{ran.stdout[-3000:]}")
        return _outcomes(report)


def _outcomes(report: Path) -> dict[str, str]:
    outcomes = {}
    for case in Xml.parse(report).iter("testcase"):
        module, *classes = case.get("classname", "").removeprefix("test.integration.").split(".")
        name = "::".join([f"{module}.py", *classes, case.get("name", "")])
        trouble = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        if trouble is None:
            outcomes[name] = "passed"
        else:
            outcomes[name] = f"{trouble.tag}: {(trouble.get('message') or '').splitlines()[0:1]}"
    return outcomes
