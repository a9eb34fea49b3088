"""The files under deploy/ hold together, as far as can be told without a container runtime.

hadolint knows the rules of Dockerfiles; check-jsonschema carries the schema of compose files.
What neither can know is tried out here: variables against the configuration, flags against the
programs, the health check against a server, the copied files against the build.
"""

import json
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafscale import __version__
from kafscale.local import programs
from kafscale.local.errors import ProgramMissing
from kafscale.settings.config import Config
from kafscale.settings.loading import load
from kafscale.settings.values import ConfigError

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE, COMPOSE = DEPLOY / "Dockerfile", DEPLOY / "compose.yaml"
# A number with at least one dot, wherever it stands in the tag.
PINNED = re.compile(r".+:[^:/]*\d+\.\d+[^:/]*")


def program(name: str) -> str:
    """A program of this Python's environment."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (make setup)")
    return found


def instructions() -> list[tuple[str, str]]:
    """What the Dockerfile says, line by line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def all_of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in all_of("ENV") for pair in line.split())


def compose() -> dict[str, Any]:
    # PyYAML resolves anchors and "<<" as compose does.
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def brokers() -> dict[str, dict[str, Any]]:
    services = compose()["services"]
    return {name: one for name, one in services.items() if name.startswith("broker-")}


def broker_config(service: dict[str, Any]) -> Config:
    given = {name: re.sub(r"\$\{.*\}", "x", raw) for name, raw in service["environment"].items()}
    return load(None, {**image_environment(), **given}, {})


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def hadolint(path: Path) -> subprocess.CompletedProcess[str]:
    return run(program("hadolint"), "--no-color", str(path))


def check_schema(path: Path) -> subprocess.CompletedProcess[str]:
    return run(program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path))


def test_the_dockerfile_has_no_findings() -> None:
    checked = hadolint(DOCKERFILE)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_compose_file_follows_the_specification() -> None:
    checked = check_schema(COMPOSE)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_linters_find_planted_faults(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text(DOCKERFILE.read_text().replace("python:3.11.13-slim-bookworm", "python"))
    assert "DL3006" in hadolint(bad).stdout
    bad = tmp_path / "compose.yaml"
    bad.write_text(COMPOSE.read_text().replace("read_only:", "readonly:"))
    assert check_schema(bad).returncode == 1


def test_every_image_is_pinned_and_ours_has_our_version() -> None:
    images = [line.split()[0] for line in all_of("FROM")]
    images += [service["image"] for service in compose()["services"].values()]
    assert not [image for image in images if not PINNED.fullmatch(image)]
    assert {service["image"] for service in brokers().values()} == {f"kafscale:{__version__}"}


def test_the_image_runs_as_an_ordinary_user_and_without_a_shell() -> None:
    (user,) = all_of("USER")
    assert int(user) > 0
    assert json.loads(all_of("ENTRYPOINT")[0]) == ["kafscale"]
    assert json.loads(all_of("CMD")[0]) == ["serve"]


def test_the_image_alone_refuses_to_be_reachable_by_accident() -> None:
    with pytest.raises(ConfigError, match=r"broker\.host: 0\.0\.0\.0 is reachable"):
        load(None, image_environment(), {})


def test_variables_in_both_files_are_settings_of_a_broker() -> None:
    configs = {name: broker_config(service) for name, service in brokers().items()}
    assert len(configs) == 3
    assert {config.store_kind for config in configs.values()} == {"s3"}
    assert {tuple(config.etcd.endpoints) for config in configs.values()} == {("http://etcd:2379",)}
    assert [f"broker-{config.broker.id}" for config in configs.values()] == list(configs)


def test_brokers_are_published_under_the_address_they_tell_clients_and_on_loopback_only() -> None:
    for service in brokers().values():
        config = broker_config(service)
        broker = config.broker
        (listener,) = config.all_listeners
        told = listener.advertised(listener.port)
        host, port = told.host, told.port
        clients, metrics = service["ports"]
        assert clients == f"{host}:{port}:{broker.port}"
        assert metrics == f"127.0.0.1:{port + 1}:{broker.metrics_port}"
    published = [port for service in brokers().values() for port in service["ports"]]
    assert len({port.rsplit(":", 1)[0] for port in published}) == len(published)
    assert {name for name, one in compose()["services"].items() if "ports" in one} == set(brokers())


def test_brokers_wait_for_services_that_say_when_they_are_ready() -> None:
    services = compose()["services"]
    for service in brokers().values():
        assert set(service["depends_on"]) == {"etcd", "s3"}
        for name, how in service["depends_on"].items():
            assert how == {"condition": "service_healthy"}
            assert services[name]["healthcheck"]["test"][0] == "CMD"


def test_volumes_that_are_used_are_declared() -> None:
    used = {
        volume.split(":")[0]
        for service in compose()["services"].values()
        for volume in service.get("volumes", [])
    }
    assert used == set(compose()["volumes"])


def test_the_example_of_secrets_names_what_the_compose_file_asks_for_and_gives_none() -> None:
    asked = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    lines = [line for line in (DEPLOY / "example.env").read_text().splitlines() if "=" in line]
    assert dict(line.split("=", 1) for line in lines) == dict.fromkeys(asked, "")


@pytest.mark.parametrize(("service", "arguments"), [("etcd", ["--help"]), ("s3", ["server", "-h"])])
def test_flags_in_the_compose_file_exist(service: str, arguments: list[str]) -> None:
    try:
        found = programs.etcd() if service == "etcd" else programs.weed()
    except ProgramMissing as reason:
        pytest.skip(str(reason))
    shown = run(str(found), *arguments)
    known = set(re.findall(r"^\s+-{1,2}([\w.-]+)", shown.stdout + shown.stderr, re.MULTILINE))
    command = compose()["services"][service]["command"]
    first = command.index(service if service == "etcd" else "server") + 1
    flags = [word.lstrip("-").split("=")[0] for word in command[first:]]
    assert len(flags) > 4
    assert not set(flags) - known


class Answering(BaseHTTPRequestHandler):
    """A broker that is ready, or not."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/ready" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def page() -> Iterator[tuple[int, type[Answering]]]:
    kind = type("One", (Answering,), {})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1], kind
        server.shutdown()
        thread.join()


def test_the_health_check_says_whether_the_broker_is_ready(
    page: tuple[int, type[Answering]],
) -> None:
    port, kind = page
    (check,) = all_of("HEALTHCHECK")
    command = json.loads(check.partition("CMD")[2])
    assert command[0] == "python"

    def healthy() -> bool:
        environment = {"KAFSCALE_METRICS_PORT": str(port)}
        asked = [sys.executable, *command[1:]]
        return not subprocess.run(
            asked, env=environment, capture_output=True, check=False
        ).returncode

    assert healthy()
    kind.status = 503
    assert not healthy()


def copied() -> list[str]:
    """What the Dockerfile takes from the repository."""
    lines = [line.split() for line in all_of("COPY") if not line.startswith("--from")]
    return [source.rstrip("/") for *sources, _ in lines for source in sources]


def test_only_what_the_dockerfile_copies_is_sent_to_the_build() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(copied())
    assert all((ROOT / source).exists() for source in copied())


@pytest.mark.slow
def test_the_wheel_builds_from_what_the_dockerfile_copies(tmp_path: Path) -> None:
    source = tmp_path / "build"
    source.mkdir()
    for name in copied():
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        (source / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    built = run(program("uv"), "build", "--wheel", "--out-dir", str(tmp_path), str(source))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("kafscale-*.whl")
    with zipfile.ZipFile(wheel) as files:
        inside = set(files.namelist())
        entry = next(name for name in inside if name.endswith("entry_points.txt"))
        assert b"kafscale = kafscale.cli.main:main" in files.read(entry)
    ours = {path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/kafscale/**/*.py")}
    assert ours <= inside


def test_the_bill_of_materials_names_every_package_as_scanners_know_it() -> None:
    def package(name: str, **more: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "version": "1.2", **more}}

    packages = [package("kafscale"), package("Flask_RESTful", license="MIT\nwhole text")]
    given = json.dumps({"installed": packages})
    script = [sys.executable, str(DEPLOY / "bill_of_materials.py")]
    made = subprocess.run(script, input=given, capture_output=True, text=True, check=True)
    bill = json.loads(made.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/kafscale@1.2"
    (other,) = bill["components"]
    assert other["purl"] == "pkg:pypi/flask-restful@1.2"
    assert other["licenses"] == [{"license": {"name": "MIT"}}]
