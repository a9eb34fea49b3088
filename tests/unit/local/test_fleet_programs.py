"""The commands of a fleet: every port once, secrets in no command line, no foreign settings."""

from pathlib import Path

import pytest

from kafscale.local import programs
from kafscale.local.child import Program
from kafscale.local.errors import LocalError
from kafscale.local.fleet_programs import MAX_BROKERS, MAX_ETCD, FleetPrograms, offsets, volume_mb
from kafscale.local.folder import Folder, LocalFleet
from kafscale.local.ports import BLOCK
from kafscale.settings.loading import load

FLEET = LocalFleet(20000, MAX_BROKERS, MAX_ETCD, "an-access-key", "a-secret-key")


@pytest.fixture
def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetPrograms:
    monkeypatch.setattr(programs, "etcd", lambda: Path("/opt/etcd"))
    monkeypatch.setattr(programs, "weed", lambda: Path("/opt/weed"))
    monkeypatch.setattr(programs, "check_etcd_client", lambda: None)
    return FleetPrograms(Folder(tmp_path), FLEET)


def everything(members: FleetPrograms) -> list[Program]:
    return [*members.etcd(), members.s3(), *members.brokers()]


def test_the_largest_fleet_fits_its_block_and_uses_no_port_twice() -> None:
    used = offsets(MAX_BROKERS, MAX_ETCD)
    assert len(set(used)) == len(used)
    assert min(used) > 0
    assert max(used) < BLOCK


def test_a_larger_fleet_keeps_the_ports_of_a_smaller_one() -> None:
    assert set(offsets(1, 1)) < set(offsets(3, 1)) < set(offsets(3, 3))


def test_every_port_in_a_command_was_checked_to_be_free(members: FleetPrograms) -> None:
    checked = {str(FLEET.port_base + offset) for offset in offsets(FLEET.brokers, FLEET.etcd)}
    said = {
        word.rpartition(marker)[2]
        for program in (*members.etcd(), members.s3())
        for word in program.command
        for marker in ("127.0.0.1:", ".port=", ".grpc=")
        if marker in word
    }
    brokers = {
        program.environment[name]
        for program in members.brokers()
        for name in ("KAFSCALE_BROKER_PORT", "KAFSCALE_METRICS_PORT")
    }
    assert said | brokers == checked


def test_no_secret_is_in_a_command_line(members: FleetPrograms) -> None:
    words = " ".join(word for program in everything(members) for word in program.command)
    assert FLEET.secret_key not in words
    assert FLEET.access_key not in words


def test_brokers_load_what_they_are_given_and_differ_only_where_they_must(
    members: FleetPrograms, tmp_path: Path
) -> None:
    configs = [load(None, program.environment, {}) for program in members.brokers()]
    assert [config.broker.id for config in configs] == list(range(1, MAX_BROKERS + 1))
    assert len({config.broker.port for config in configs}) == MAX_BROKERS
    assert {config.broker.data_dir for config in configs} == {
        str(tmp_path / "brokers" / str(number)) for number in range(1, MAX_BROKERS + 1)
    }
    assert configs[0].etcd.endpoints == members.etcd_endpoints
    keys = configs[0].s3.access_key, configs[0].s3.secret_key
    assert [key.reveal() for key in keys] == ["an-access-key", "a-secret-key"]
    assert len({config.s3 for config in configs}) == 1


def test_settings_that_lead_elsewhere_do_not_reach_the_fleet_and_others_do(
    members: FleetPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        *("KAFSCALE_S3_SESSION_TOKEN", "KAFSCALE_ADVERTISED_HOST", "KAFSCALE_USE_MEMORY_S3"),
        *("KAFSCALE_S3_NAMESPACE", "ETCD_NAME", "AWS_PROFILE", "HTTPS_PROXY", "http_proxy"),
    ):
        monkeypatch.setenv(name, "elsewhere")
    kept = {"KAFSCALE_LOG_LEVEL": "debug", "KAFSCALE_ETCD_LEASE_TTL": "5s"}
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KAFSCALE_S3_BUCKET", "elsewhere")
    for program in everything(members):
        assert "elsewhere" not in program.environment.values()
        assert kept.items() <= program.environment.items()


def test_members_of_etcd_know_each_other(members: FleetPrograms) -> None:
    clusters = {
        word for program in members.etcd() for word in program.command if "initial-cluster=" in word
    }
    (cluster,) = clusters
    assert cluster.count("etcd-") == MAX_ETCD


VOLUMES = b'{"Topology": {"DataCenters": [{"Id": "DefaultDataCenter"}]}}'


@pytest.mark.parametrize(
    ("status", "page", "sent"),
    [
        (0, b"", False),  # refused, or reset
        (200, b'{"Topology": {"DataCenters": null}}', False),
        (200, b"{", False),  # cut short
        (200, VOLUMES, True),
    ],
)
def test_nothing_is_sent_to_an_s3_server_that_has_no_volumes_yet(
    members: FleetPrograms, monkeypatch: pytest.MonkeyPatch, status: int, page: bytes, sent: bool
) -> None:
    asked: list[str] = []

    def ask(_port: int, method: str, path: str, _body: bytes | None = None) -> tuple[int, bytes]:
        asked.append(f"{method} {path}")
        return {"/dir/status": (status, page), "/": (403, b"")}.get(path, (201, b""))

    monkeypatch.setattr("kafscale.local.fleet_programs._ask", ask)
    assert members.s3().answers() is sent
    assert ("PUT /ready" in asked) is sent


@pytest.mark.parametrize(
    ("page", "well"), [(b'{"health":"true"}', True), (b'{"health":"false"}', False), (b"", False)]
)
def test_an_etcd_that_says_nothing_sensible_is_asked_again(
    members: FleetPrograms, monkeypatch: pytest.MonkeyPatch, page: bytes, well: bool
) -> None:
    monkeypatch.setattr("kafscale.local.fleet_programs._ask", lambda *_: (200, page))
    assert next(members.etcd()).answers() is well


@pytest.mark.parametrize(
    ("free_mb", "volume"), [(512, 16), (2048, 32), (13_000, 203), (65_536, 1024), (10**7, 1024)]
)
def test_the_s3_server_finds_room_for_many_volumes(free_mb: int, volume: int) -> None:
    assert volume_mb(free_mb << 20) == volume
    assert free_mb // volume >= 30


def test_a_disk_without_room_is_refused_before_anything_starts() -> None:
    with pytest.raises(LocalError, match="only 300 MiB are free"):
        volume_mb(300 << 20)
