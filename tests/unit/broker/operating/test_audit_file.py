"""The file of the audit log."""

import json
import stat
from pathlib import Path

import pytest

from kafscale.broker.operating.audit_file import AuditFile


def test_every_line_is_json_and_its_owner_alone_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), 1 << 20, 3)
    for number in range(100):
        file.write({"number": number, "name": "a\nb %s"})
    file.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["number"] for row in rows] == list(range(100))
    assert rows[0]["name"] == "a\nb %s"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_file_is_turned_over_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    file = AuditFile(str(tmp_path / "audit.log"), 1000, 3)
    for number in range(200):
        file.write({"number": number})
    file.close()
    files = sorted(tmp_path.iterdir())
    assert [one.name for one in files] == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(one.stat().st_size <= 1000 for one in files)
    assert json.loads(files[0].read_text().splitlines()[-1]) == {"number": 199}


def test_a_line_that_cannot_be_written_is_counted() -> None:
    file = AuditFile("/dev/full", 1 << 20, 1)
    file.write({"number": 1})
    file.close()
    assert file.lost == 1


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        AuditFile(str(tmp_path / "missing" / "audit.log"), 1000, 2)
