"""The rules between settings: every reason to refuse a combination.

Here: one function per subject; each is silent or raises ConfigError.
Next door: what a single value may look like (values.py), loading (loading.py).
"""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from kafscale.model.errors import InvalidMapping
from kafscale.settings.config import Config
from kafscale.settings.listeners import (
    ListenerConflict,
    check_listeners,
    is_encrypted,
    is_loopback,
    is_unspecified,
)
from kafscale.settings.sections import (
    AuthorizationSection,
    BrokerSection,
    ConsoleSection,
    EtcdSection,
    S3Section,
)
from kafscale.settings.security import (
    check_pulsar,
    check_sections,
    check_security,
    fluvio_listener,
    is_authenticated,
)
from kafscale.settings.values import MAX_INT32, ConfigError


def check(config: Config) -> None:
    """Raise ConfigError if settings contradict each other."""
    _check_addresses(config)
    check_s3(config.s3)
    _check_sizes(config)
    if not _NAMESPACE.fullmatch(config.storage.namespace):
        raise ConfigError(
            "storage.namespace: expected letters, digits, '.', '_', '-' in parts split by '/', "
            f"found {config.storage.namespace!r}"
        )
    _check_etcd(config.etcd)
    _check_authorization(config.authorization)
    _check_console(config.console)
    try:
        config.layout_rules.check_limits(
            config.topics.max_partitions, config.topics.max_virtual_partitions
        )
    except InvalidMapping as problem:
        raise ConfigError(f"mapping: {problem}") from problem


def _check_console(console: ConsoleSection) -> None:
    if bool(console.tls.cert_file) != bool(console.tls.key_file):
        missing, present = (
            ("keyFile", "certFile") if console.tls.cert_file else ("certFile", "keyFile")
        )
        raise ConfigError(f"console.tls.{missing}: expected beside console.tls.{present}")
    is_safe = is_loopback(console.host) or console.tls.cert_file
    if not is_safe and not console.allow_insecure_bind:
        raise ConfigError(
            f"console.host: {console.host} is reachable from other machines and passwords would "
            "not be encrypted; set console.tls.certFile, or console.allowInsecureBind to allow it"
        )
    if not _BASE_PATH.fullmatch(console.base_path):
        raise ConfigError(
            f"console.basePath: expected something like /kafscale/, found {console.base_path!r}"
        )
    for proxy in console.trusted_proxies:
        try:
            ipaddress.ip_network(proxy.strip(), strict=False)
        except ValueError:
            raise ConfigError(
                f"console.trustedProxies: expected addresses or ranges, found {proxy!r}"
            ) from None


_BASE_PATH: Final = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*")
_NAMESPACE: Final = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


def _check_addresses(config: Config) -> None:
    broker = config.broker
    is_open = config.tls.client_auth != "required" or not config.tls.metrics
    if not is_loopback(broker.host) and is_open and not broker.allow_insecure_bind:
        raise ConfigError(
            f"broker.host: {broker.host} is reachable from other machines and authenticates no "
            "client; set broker.allowInsecureBind (--allow-insecure-bind) to allow it"
        )
    told = broker.advertised_host or broker.host
    if is_unspecified(told) and not config.listeners and not config.advertised_listeners:
        name = "advertisedHost" if broker.advertised_host else "host"
        raise ConfigError(
            f"broker.{name}: clients cannot connect to {told}; "
            "set broker.advertisedHost (--advertised-host) to a name or address that they can reach"
        )
    if config.listeners:
        _check_one_form(broker)
    try:
        listeners = config.all_listeners
        check_listeners(
            listeners,
            lambda row: is_authenticated(config.tls, row),
            allow_insecure_bind=broker.allow_insecure_bind,
        )
        check_sections(config.tls, config.sasl)
        for listener in (*listeners, fluvio_listener(config.fluvio)):
            check_security(config.tls, config.sasl, listener)
        if config.pulsar.listener is not None:
            check_pulsar(config.sasl, config.pulsar_listener)
            _check_relays(config)
    except ListenerConflict as problem:
        raise ConfigError(str(problem)) from problem
    for listener in listeners:
        if listener.port and listener.port == broker.metrics_port:
            other = f"listener {listener.name}" if config.listeners else "broker.port"
            raise ConfigError(
                f"broker.metricsPort: expected another port than {other}, found {listener.port}"
            )


def _check_relays(config: Config) -> None:
    """Brokers connect to each other without TLS, and cannot show a client's certificate."""
    if config.pulsar.proxy_through_service_url and is_encrypted(config.pulsar_listener.protocol):
        raise ConfigError(
            "pulsar.proxyThroughServiceUrl: expected a pulsar.listener without TLS; "
            "end TLS at the address that clients connect to"
        )


def _check_one_form(broker: BrokerSection) -> None:
    """With `listeners`, the settings of the one listener that there is without have no meaning."""
    usual = BrokerSection()
    for key, given, default in (
        ("port", broker.port, usual.port),
        ("advertisedHost", broker.advertised_host, usual.advertised_host),
        ("advertisedPort", broker.advertised_port, usual.advertised_port),
    ):
        if given != default:
            raise ConfigError(f"broker.{key}: has no meaning beside listeners; say it there")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_s3(s3: S3Section) -> None:
    """Raise ConfigError if the settings of the bucket contradict each other."""
    _check_bucket(s3)
    if s3.kms_key_id and s3.server_side_encryption != "aws:kms":
        raise ConfigError("s3.serverSideEncryption: expected aws:kms beside s3.kmsKeyId")
    if s3.part_size < _SMALLEST_PART_BYTES:
        raise ConfigError(f"s3.partSize: expected at least 5Mi, found {s3.part_size}")
    if bool(s3.access_key) != bool(s3.secret_key):
        missing, present = (
            ("secretKey", "accessKey") if s3.access_key else ("accessKey", "secretKey")
        )
        raise ConfigError(f"s3.{missing}: expected beside s3.{present}, found none")
    if s3.session_token and not s3.access_key:
        raise ConfigError("s3.accessKey: expected beside s3.sessionToken, found none")
    if s3.endpoint and not s3.endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"s3.endpoint: expected http://... or https://..., found {s3.endpoint!r}")
    host = urlsplit(s3.endpoint or "").hostname
    if host and _is_address(host) and not s3.path_style:
        raise ConfigError(
            f"s3.pathStyle: expected true, since {host} cannot have a bucket's name before it"
        )


_SMALLEST_PART_BYTES: Final = 5 << 20  # S3 refuses smaller ones
_SCHEMES: Final = ("s3", "gs", "az")


def _check_bucket(s3: S3Section) -> None:
    scheme, _, name = s3.url.partition("://")
    if s3.bucket and (scheme not in _SCHEMES or not name or "/" in name):
        raise ConfigError(
            f"s3.bucket: expected a name, s3://name, gs://name or az://name, found {s3.bucket!r}"
        )
    only_s3 = {
        "accessKey": s3.access_key,
        "serverSideEncryption": s3.server_side_encryption,
    }
    for key, value in only_s3.items():
        if value and scheme != "s3":
            raise ConfigError(f"s3.{key}: has no meaning for {s3.bucket}")


_ETCD_ENDPOINT: Final = re.compile(r"(https?://)?([^\s/:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")


_SHORTEST_LEASE_S: Final = 2.0  # etcd counts in seconds, and a short pause must not end a lease

_LONGEST_GATHERING_S: Final = 5.0  # a broker that starts waits 10 s for its share


def _check_etcd(etcd: EtcdSection) -> None:
    for endpoint in etcd.endpoints:
        if not _ETCD_ENDPOINT.fullmatch(endpoint):
            raise ConfigError(
                f"etcd.endpoints: expected host:port, http://... or https://..., found {endpoint!r}"
            )
        if etcd.is_encrypted() and endpoint.startswith("http://"):
            raise ConfigError(f"etcd.endpoints: expected https:// as TLS is on, found {endpoint!r}")
    if bool(etcd.username) != bool(etcd.password):
        missing, present = ("password", "username") if etcd.username else ("username", "password")
        raise ConfigError(f"etcd.{missing}: expected beside etcd.{present}, found none")
    if etcd.lease_ttl < _SHORTEST_LEASE_S:
        raise ConfigError(f"etcd.leaseTtl: expected 2s or longer, found {etcd.lease_ttl:g}s")
    if etcd.gather_time > _LONGEST_GATHERING_S:
        raise ConfigError(f"etcd.gatherTime: expected 5s or shorter, found {etcd.gather_time:g}s")
    tls = etcd.tls
    if bool(tls.cert_file) != bool(tls.key_file):
        missing, present = ("keyFile", "certFile") if tls.cert_file else ("certFile", "keyFile")
        raise ConfigError(f"etcd.tls.{missing}: expected beside etcd.tls.{present}, found none")
    if (tls.ca_file or tls.cert_file) and etcd.endpoints and not etcd.is_encrypted():
        raise ConfigError("etcd.tls.enabled: expected true, since certificates are given")


def _check_authorization(authorization: AuthorizationSection) -> None:
    """A broker that was told of super users, and lets everyone do everything, is a mistake."""
    if authorization.enabled:
        return
    for key, given in (
        ("superUsers", authorization.super_users),
        ("allowEveryoneIfNoAclFound", authorization.allow_everyone_if_no_acl_found),
    ):
        if given:
            raise ConfigError(f"authorization.{key}: expected authorization.enabled beside it")


_SHORTEST_GRACE_S: Final = 1.0  # readers need time to read the newest manifest


def _check_sizes(config: Config) -> None:
    if config.grace_period_s < _SHORTEST_GRACE_S:
        raise ConfigError(
            f"storage.gracePeriod: expected 1s or longer, found {config.grace_period_s:g}s"
        )
    topics, request_bytes = config.topics, config.network.max_request_size
    if config.storage.segment_bytes >= 1 << 31:
        # An index entry holds a position in 31 bits.
        raise ConfigError(
            f"storage.segmentBytes: expected less than 2Gi, found {config.storage.segment_bytes}"
        )
    shortest, longest = (
        config.consumer.min_session_timeout_ms,
        config.consumer.max_session_timeout_ms,
    )
    if shortest > longest:
        raise ConfigError(
            f"consumer.minSessionTimeoutMs: expected at most consumer.maxSessionTimeoutMs "
            f"({longest}), found {shortest}"
        )
    heartbeat, session = config.consumer.heartbeat_interval_ms, config.consumer.session_timeout_ms
    if heartbeat >= session:
        raise ConfigError(
            f"consumer.heartbeatIntervalMs: expected less than consumer.sessionTimeoutMs "
            f"({session}), found {heartbeat}"
        )
    for name, size in (
        ("socketSendBuffer", config.network.socket_send_buffer),
        ("socketReceiveBuffer", config.network.socket_receive_buffer),
    ):
        if size is not None and size > MAX_INT32:
            raise ConfigError(f"network.{name}: expected less than 2Gi, found {size}")
    if topics.default_partitions > topics.max_partitions:
        raise ConfigError(
            f"topics.defaultPartitions: expected at most topics.maxPartitions "
            f"({topics.max_partitions}), found {topics.default_partitions}"
        )
    if topics.max_message_bytes > request_bytes:
        raise ConfigError(
            f"topics.maxMessageBytes: expected at most network.maxRequestSize "
            f"({request_bytes}), found {topics.max_message_bytes}"
        )
