"""What a broker prints for the person who has started it."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from kafscale import __version__
from kafscale.gateways.fluvio.listener_names import CONTROL_LISTENER, TLS_PROTOCOL
from kafscale.gateways.pulsar.listener_names import PULSAR
from kafscale.model.endpoints import Endpoint
from kafscale.settings.config import Config
from kafscale.settings.listeners import PROTOCOLS, is_encrypted


def show(config: Config, endpoints: Mapping[str, Endpoint], notes: Mapping[str, str]) -> None:
    """Print where clients connect, where data lies, and how to stop.

    `notes`: why doors are closed, by their names.
    """
    where = next(iter(endpoints.values()))
    command = _command()
    print(
        f"kafscale {__version__}: Kafka clients connect to {where}\n"
        f"{_listeners(endpoints)}"
        f"  try it    echo hello | {command} produce --bootstrap {where} first\n"
        f"            {command} consume --bootstrap {where} first\n"
        f"            (or: kcat -b {where} -L)\n"
        f"{_pulsar(config, endpoints)}"
        f"{_fluvio(endpoints)}"
        f"{_notes(notes)}"
        f"  data      {data_location(config)}\n"
        f"  metrics   {'https' if config.tls.metrics else 'http'}://{config.broker.host}:{config.broker.metrics_port}/metrics\n"
        f"  stop      Ctrl-C",
        file=sys.stdout,
        flush=True,
    )


def _listeners(endpoints: Mapping[str, Endpoint]) -> str:
    """A line per listener of Kafka clients, if there are several."""
    kafka = {name: one for name, one in endpoints.items() if one.protocol in PROTOCOLS}
    if len(kafka) == 1:
        return ""
    return "".join(f"  {name:9} {endpoint}\n" for name, endpoint in kafka.items())


def _pulsar(config: Config, endpoints: Mapping[str, Endpoint]) -> str:
    """Where Pulsar clients connect, if their door is open."""
    endpoint = endpoints.get(PULSAR)
    has_tls = config.pulsar.listener is not None and is_encrypted(config.pulsar_listener.protocol)
    scheme = "pulsar+ssl" if has_tls else "pulsar"
    return f"  pulsar    {scheme}://{endpoint}\n" if endpoint else ""


def _fluvio(endpoints: Mapping[str, Endpoint]) -> str:
    """How Fluvio clients connect, if their door is open."""
    endpoint = endpoints.get(CONTROL_LISTENER)
    if endpoint is None:
        return ""
    if endpoint.protocol == TLS_PROTOCOL:  # Fluvio's command adds profiles without TLS only
        return f"  fluvio    {endpoint} by TLS, with a profile that names certificates\n"
    return f"  fluvio    fluvio profile add kafscale {endpoint}\n"


def _notes(notes: Mapping[str, str]) -> str:
    return "".join(f"  {name:9} {note}\n" for name, note in notes.items())


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
