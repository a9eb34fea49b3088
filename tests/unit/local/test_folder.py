"""What is kept beside the data, and who may write it."""

import os
import subprocess
from pathlib import Path

import pytest

from kafscale.local.errors import AlreadyRunning, LocalError
from kafscale.local.folder import (
    BrokerState,
    ClusterStatus,
    EtcdState,
    Folder,
    LocalFleet,
    ProcessState,
    S3State,
)

FLEET = LocalFleet(20000, 3, 1, "access", "secret")


def cluster() -> ClusterStatus:
    process = {"pid": 7, "port": 20001, "state": "up", "restarts": 0}
    return ClusterStatus(
        bootstrap="127.0.0.1:20030",
        brokers=[BrokerState(id=1, metrics_port=20031, **process)],
        etcd=EtcdState(["127.0.0.1:20010"], [ProcessState(**process)]),
        s3=S3State(endpoint="http://x", region="r", bucket="b", credentials="c", **process),
        supervisor=os.getpid(),
    )


def test_a_new_folder_remembers_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "new")
    assert (folder.remembered(), folder.cluster(), folder.supervisor()) == (None, None, None)
    folder.unpublish()


def test_choices_and_addresses_are_read_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.remember(FLEET)
    folder.publish(cluster())
    assert (folder.remembered(), folder.cluster()) == (FLEET, cluster())
    folder.unpublish()
    assert folder.cluster() is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text("{")
    with pytest.raises(LocalError, match=r"fleet\.json: not what kafscale wrote there"):
        Folder(tmp_path).remembered()


def test_files_with_credentials_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.remember(FLEET)
    folder.write_env({"KAFSCALE_S3_SECRET_KEY": "secret"})
    folder.publish(cluster())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cluster.json",
        "env.sh",
        "fleet.json",
    ]


def test_a_shell_reads_the_variables_as_they_were_written(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write_env({"ODD": 'it\'s $HOME; "x"'})
    script = f'. {folder.env_file}; printf %s "$ODD"'
    read = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert read.stdout == 'it\'s $HOME; "x"'


def test_only_one_supervisor_at_a_time(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a place")
    held = folder.lock()
    assert folder.supervisor() == os.getpid()
    with pytest.raises(AlreadyRunning, match=rf"supervisor {os.getpid()}.*--data '.*/a place'"):
        folder.lock()
    held.close()
    assert folder.supervisor() is None
    folder.lock().close()


def test_a_lock_of_a_process_that_is_gone_is_free(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4194304\n")
    assert Folder(tmp_path).supervisor() is None
    Folder(tmp_path).lock().close()
