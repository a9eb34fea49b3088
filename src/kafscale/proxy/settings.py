"""The proxy's configuration: a YAML file with the seed's `mapping`, listeners and the upstream.

Here: names, types, defaults, rules between them. Next door: strict YAML (settings/yaml_file.py),
which topics are mapped (virtual/rules.py).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from kafscale.access.acls import read_principal
from kafscale.engine.access.acls import AclRules
from kafscale.model.errors import InvalidAcl, MappingError
from kafscale.model.security.secret import Secret
from kafscale.proxy.front_doors import DoorTls, FrontDoor, read_front_doors
from kafscale.proxy.upstream.ledger import DEFAULT_TOPIC
from kafscale.proxy.upstream.link import UpstreamAddress
from kafscale.proxy.upstream.login import MECHANISMS
from kafscale.settings.security import TlsSection
from kafscale.settings.values import ConfigError
from kafscale.settings.yaml_file import read_tree
from kafscale.virtual.arithmetic import DEFAULT_RANGE, Remapper
from kafscale.virtual.rules import LayoutRules, Override, PartitionLayout

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_ID: Final = 9_999
DEFAULT_ADDRESS: Final = "127.0.0.1:9092"


class TlsSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Files of a certificate."""

    cert_path: str | None = None
    key_path: str | None = None
    ca_cert_path: str | None = None
    require_client_cert: bool = False


class ListenSasl(msgspec.Struct, forbid_unknown_fields=True):
    """Who may log in at the proxy."""

    enabled_mechanisms: list[str] = msgspec.field(default_factory=lambda: ["PLAIN"])
    users_file: str = ""


class ListenAcls(msgspec.Struct, forbid_unknown_fields=True):
    """Clients may do what the upstream's access control lists allow them."""

    super_users: list[str] = msgspec.field(default_factory=list)
    allow_everyone_if_no_acl_found: bool = False


class Listen(msgspec.Struct, forbid_unknown_fields=True):
    """Where clients connect."""

    address: str = ""  # "": DEFAULT_ADDRESS
    advertised_address: str | None = None
    first_broker_port: int = 0  # of the upstream's broker 0; 0: any free ports
    max_connections: int = 1000
    tls: TlsSettings | None = None
    sasl: ListenSasl | None = None
    acls: ListenAcls | None = None


class KafkaSasl(msgspec.Struct, forbid_unknown_fields=True):
    """Who the proxy is to the upstream."""

    mechanism: str = "PLAIN"
    username: str = ""
    password: str = ""
    password_file: str | None = None


class Kafka(msgspec.Struct, forbid_unknown_fields=True):
    """The upstream."""

    bootstrap_servers: list[str] = msgspec.field(default_factory=list)
    tls: TlsSettings | None = None
    sasl: KafkaSasl | None = None


class MappingRow(msgspec.Struct, forbid_unknown_fields=True):
    """How topics are mapped; None: as the defaults say."""

    virtual_partitions: int | None = None
    physical_partitions: int | None = None


class MappingSettings(MappingRow, forbid_unknown_fields=True):
    """The defaults, and topics by name or pattern."""

    offset_range: int = DEFAULT_RANGE
    topics: dict[str, MappingRow] = msgspec.field(default_factory=dict)


class OperatorsPage(msgspec.Struct, forbid_unknown_fields=True):
    """Where /metrics, /health and /ready are shown."""

    address: str = ""  # none: there is no page


class ProxySettings(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    id: int = 0
    listeners: str | list[dict[str, object]] | None = None  # instead of listen.address
    listen: Listen = msgspec.field(default_factory=Listen)
    kafka: Kafka = msgspec.field(default_factory=Kafka)
    mapping: MappingSettings = msgspec.field(default_factory=MappingSettings)
    metrics: OperatorsPage = msgspec.field(default_factory=OperatorsPage)
    ledger_topic: str = DEFAULT_TOPIC
    tail_bytes: int = 64 << 20
    cache_bytes: int = 64 << 20

    @property
    def rules(self) -> LayoutRules:
        """Which topics are mapped."""
        default = PartitionLayout(
            self.mapping.virtual_partitions,
            self.mapping.physical_partitions,
            self.mapping.offset_range,
        )
        overrides = {
            key: Override(row.virtual_partitions, row.physical_partitions)
            for key, row in self.mapping.topics.items()
        }
        return LayoutRules.of(default, overrides)

    @property
    def acl_rules(self) -> AclRules | None:
        """What the settings say beside the upstream's lists; None: these do not count."""
        acls = self.listen.acls
        if acls is None:
            return None
        try:
            users = [read_principal(one) for one in acls.super_users]
        except InvalidAcl as problem:
            raise ConfigError(f"listen.acls.super_users: {problem}") from None
        return AclRules(users, acls.allow_everyone_if_no_acl_found)

    @property
    def front_doors(self) -> list[FrontDoor]:
        """Where clients connect. Raises ConfigError."""
        listen = self.listen
        files = TlsSettings() if listen.tls is None else listen.tls
        sasl = ListenSasl() if listen.sasl is None else listen.sasl
        client_auth: Literal["none", "required"]
        client_auth = "required" if files.require_client_cert else "none"
        if self.listeners is not None:
            if listen.address or listen.advertised_address or listen.first_broker_port:
                raise ConfigError("listeners: listen.address (--listen) is for one listener alone")
            tls = TlsSection(files.cert_path, files.key_path, files.ca_cert_path, client_auth)
            return read_front_doors(self.listeners, tls, sasl.enabled_mechanisms, sasl.users_file)
        address = read_address(listen.address or DEFAULT_ADDRESS, "listen.address")
        told = UpstreamAddress(address.host, 0)
        if listen.advertised_address is not None:
            told = read_address(listen.advertised_address, "listen.advertised_address")
        return [
            FrontDoor(
                "",
                address,
                told,
                listen.first_broker_port,
                None
                if listen.tls is None
                else DoorTls(
                    files.cert_path or "", files.key_path or "", files.ca_cert_path, client_auth
                ),
                () if listen.sasl is None else tuple(sasl.enabled_mechanisms),
                sasl.users_file,
            )
        ]

    @property
    def bootstrap(self) -> list[UpstreamAddress]:
        """Where the upstream is."""
        return [
            read_address(one, "kafka.bootstrap_servers") for one in self.kafka.bootstrap_servers
        ]

    @property
    def password(self) -> Secret:
        """Of the proxy, towards the upstream."""
        sasl = self.kafka.sasl
        if sasl is None:
            return Secret()
        if sasl.password_file is not None:
            try:
                return Secret(Path(sasl.password_file).read_text(encoding="utf-8").rstrip("\r\n"))
            except OSError as problem:
                raise ConfigError(
                    f"kafka.sasl.password_file: {sasl.password_file}: {problem.strerror}"
                ) from None
        return Secret(sasl.password)


def load(path: Path | None, upstream: str | None, listen: str | None) -> ProxySettings:
    """Read and check the file; arguments of the command come before it. Raises ConfigError."""
    tree = {} if path is None else read_tree(path)
    settings = read_settings({} if tree is None else tree, os.environ)
    if upstream is not None:
        settings.kafka.bootstrap_servers = [one.strip() for one in upstream.split(",")]
    if listen is not None:
        settings.listen.address = listen
    check(settings)
    return settings


def load_mapping(path: Path | None) -> ProxySettings:
    """Read the file for its mapping alone: the upstream need not be known. Raises ConfigError."""
    tree = None if path is None else read_tree(path)
    settings = read_settings({} if tree is None else tree, os.environ)
    _check_mapping(settings)
    return settings


def read_settings(tree: object, env: Mapping[str, str]) -> ProxySettings:
    """The settings that a tree of values describes. Raises ConfigError."""
    try:
        return msgspec.convert(_expanded(tree, env), ProxySettings, strict=True)
    except msgspec.ValidationError as problem:
        raise ConfigError(str(problem)) from None


def _expanded(value: object, env: Mapping[str, str]) -> object:
    if isinstance(value, dict):
        return {str(key): _expanded(one, env) for key, one in value.items()}
    if isinstance(value, list):
        return [_expanded(one, env) for one in value]
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        if match[1] not in env:
            raise ConfigError(f"the variable {match[1]} is not set")
        return env[match[1]]

    return _VARIABLE.sub(variable, value)


def check(settings: ProxySettings) -> None:
    """Refuse settings that contradict each other. Raises ConfigError."""
    if not settings.kafka.bootstrap_servers:
        raise ConfigError("the upstream is not known: give --upstream or kafka.bootstrap_servers")
    _ = settings.bootstrap
    if not 0 <= settings.id <= _MOST_ID:
        raise ConfigError(f"id: expected a number from 0 to {_MOST_ID}")
    if not settings.ledger_topic.startswith("__"):
        raise ConfigError("ledger_topic: expected a name that begins with __: it is never mapped")
    sasl = settings.kafka.sasl
    if sasl is not None and sasl.mechanism not in MECHANISMS:
        raise ConfigError(f"kafka.sasl.mechanism: expected one of {', '.join(MECHANISMS)}")
    front = settings.listen.sasl
    if front is not None and (not front.users_file or not front.enabled_mechanisms):
        raise ConfigError("listen.sasl: users_file and enabled_mechanisms are needed")
    if front is not None and set(front.enabled_mechanisms) - set(MECHANISMS):
        raise ConfigError(
            f"listen.sasl.enabled_mechanisms: expected some of {', '.join(MECHANISMS)}"
        )
    tls = settings.listen.tls
    if tls is not None and (tls.cert_path is None or tls.key_path is None):
        raise ConfigError("listen.tls: cert_path and key_path are needed")
    if tls is not None and tls.require_client_cert and tls.ca_cert_path is None:
        raise ConfigError("listen.tls: require_client_cert needs ca_cert_path")
    if settings.metrics.address:
        read_address(settings.metrics.address, "metrics.address")
    _ = settings.acl_rules
    _ = settings.front_doors
    _check_mapping(settings)


def _check_mapping(settings: ProxySettings) -> None:
    try:
        rules = settings.rules
        layouts = [rules.default, *rules.by_name.values(), *(one for _, one in rules.patterns)]
        for layout in layouts:
            if layout.virtual_partitions is not None and layout.physical_partitions is not None:
                Remapper(layout.virtual_partitions, layout.physical_partitions, layout.offset_range)
    except MappingError as problem:
        raise ConfigError(f"mapping: {problem}") from None


def read_address(text: str, where: str) -> UpstreamAddress:
    """Read HOST:PORT. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{where}: expected HOST:PORT, found {text}")
    return UpstreamAddress(host.strip("[]"), int(port))
