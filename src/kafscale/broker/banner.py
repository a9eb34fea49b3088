"""What a broker prints for the person who has started it."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from kafscale import __version__
from kafscale.model.endpoints import PULSAR, Endpoint
from kafscale.settings.config import Config


def show(config: Config, endpoints: Mapping[str, Endpoint]) -> None:
    """Print where clients connect, where data lies, and how to stop."""
    kafka = {name: one for name, one in endpoints.items() if name != PULSAR}
    where = next(iter(kafka.values()))
    command = _command()
    print(
        f"kafscale {__version__}: Kafka clients connect to {where}\n"
        f"{_listeners(kafka)}"
        f"{_pulsar(config, endpoints)}"
        f"  try it    echo hello | {command} produce --bootstrap {where} first\n"
        f"            {command} consume --bootstrap {where} first\n"
        f"            (or: kcat -b {where} -L)\n"
        f"  data      {data_location(config)}\n"
        f"  metrics   http://{config.broker.host}:{config.broker.metrics_port}/metrics\n"
        f"  stop      Ctrl-C",
        file=sys.stdout,
        flush=True,
    )


def _listeners(endpoints: Mapping[str, Endpoint]) -> str:
    """A line per listener, if there are several."""
    if len(endpoints) == 1:
        return ""
    return "".join(f"  {name:9} {endpoint}\n" for name, endpoint in endpoints.items())


def _pulsar(config: Config, endpoints: Mapping[str, Endpoint]) -> str:
    """Where Pulsar clients connect, or why they cannot."""
    if PULSAR in endpoints:
        return f"  pulsar    pulsar://{endpoints[PULSAR]}\n"
    if config.pulsar_listener is None:
        return ""
    taken = config.pulsar_listener.port
    return f"  pulsar    no door: port {taken} is taken (KAFSCALE_PULSAR_PORT names another)\n"


def _command() -> str:
    """How to call this program from here: by its name only if the shell finds it."""
    if shutil.which("kafscale"):
        return "kafscale"
    beside = Path(sys.executable).parent / "kafscale"
    if not beside.exists():
        return f"{sys.executable} -m kafscale.cli.main"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


def data_location(config: Config) -> str:
    """Where objects and metadata are."""
    metadata = f"metadata in {config.broker.data_dir}/metadata.db"
    if config.etcd.endpoints:
        metadata = f"metadata in etcd at {', '.join(config.etcd.targets())}"
    if config.store_kind == "memory":
        return f"objects in memory only, gone when the broker stops; {metadata}"
    if config.store_kind == "s3":
        return f"objects in {config.s3.url}; {metadata}"
    return f"objects in {config.broker.data_dir}/objects; {metadata}"
