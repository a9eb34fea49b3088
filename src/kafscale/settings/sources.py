"""Where settings come from: a YAML file, the environment, flags.

Here: which variable and which flag stands for which setting, and reading YAML into flat keys.
Next door: the settings themselves (config.py), their values (values.py).
Never here: what a value means.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafscale.settings.values import ConfigError


class Given(NamedTuple):
    """One value as it was given: the setting, the name that was used for it, the text."""

    key: str  # "broker.port"
    name: str  # "broker.port", "KAFSCALE_BROKER_PORT" or "--port"
    raw: object


CONFIG_VARIABLE: Final = "KAFSCALE_CONFIG"
S3_VARIABLES: Final = "KAFSCALE_S3_"
CONSOLE_VARIABLES: Final = "KAFSCALE_CONSOLE_"
OF_THE_BROKER: Final = frozenset({"KAFSCALE_S3_BUCKET", "KAFSCALE_S3_NAMESPACE"})

VARIABLES: Final[dict[str, str]] = {
    "KAFSCALE_BROKER_ID": "broker.id",
    "KAFSCALE_BROKER_HOST": "broker.host",
    "KAFSCALE_BROKER_PORT": "broker.port",
    "KAFSCALE_METRICS_PORT": "broker.metricsPort",
    "KAFSCALE_LISTENERS": "listeners",
    "KAFSCALE_ADVERTISED_LISTENERS": "advertisedListeners",
    "KAFSCALE_ADVERTISED_HOST": "broker.advertisedHost",
    "KAFSCALE_ADVERTISED_PORT": "broker.advertisedPort",
    "KAFSCALE_ALLOW_INSECURE_BIND": "broker.allowInsecureBind",
    "KAFSCALE_RACK": "broker.rack",
    "KAFSCALE_DATA_DIR": "broker.dataDir",
    "KAFSCALE_MAX_CONNECTIONS": "network.maxConnections",
    "KAFSCALE_MAX_CONNECTIONS_PER_IP": "network.maxConnectionsPerIp",
    "KAFSCALE_TLS_CERT_FILE": "tls.certFile",
    "KAFSCALE_TLS_KEY_FILE": "tls.keyFile",
    "KAFSCALE_TLS_CA_FILE": "tls.caFile",
    "KAFSCALE_TLS_CLIENT_AUTH": "tls.clientAuth",
    "KAFSCALE_TLS_METRICS": "tls.metrics",
    "KAFSCALE_SASL_MECHANISMS": "sasl.mechanisms",
    "KAFSCALE_SASL_USERS_FILE": "sasl.usersFile",
    "KAFSCALE_SASL_ADMIN_USER": "sasl.adminUser",
    "KAFSCALE_SASL_ADMIN_PASSWORD_FILE": "sasl.adminPasswordFile",
    "KAFSCALE_SASL_TOKEN_SECRET_FILE": "sasl.tokenSecretFile",
    "KAFSCALE_USE_MEMORY_S3": "useMemoryS3",
    "KAFSCALE_S3_BUCKET": "s3.bucket",
    "KAFSCALE_S3_REGION": "s3.region",
    "KAFSCALE_S3_ENDPOINT": "s3.endpoint",
    "KAFSCALE_S3_PATH_STYLE": "s3.pathStyle",
    "KAFSCALE_S3_ACCESS_KEY": "s3.accessKey",
    "KAFSCALE_S3_SECRET_KEY": "s3.secretKey",
    "KAFSCALE_S3_SESSION_TOKEN": "s3.sessionToken",
    "KAFSCALE_S3_PART_SIZE": "s3.partSize",
    "KAFSCALE_S3_CONCURRENCY": "s3.concurrency",
    "KAFSCALE_S3_MAX_RETRIES": "s3.maxRetries",
    "KAFSCALE_S3_MAX_IDLE_CONNS": "s3.maxIdleConns",
    "KAFSCALE_S3_MAX_IDLE_CONNS_PER_HOST": "s3.maxIdleConnsPerHost",
    "KAFSCALE_S3_IDLE_CONN_TIMEOUT": "s3.idleConnTimeout",
    "KAFSCALE_S3_CONNECT_TIMEOUT": "s3.connectTimeout",
    "KAFSCALE_S3_REQUEST_TIMEOUT": "s3.requestTimeout",
    "KAFSCALE_S3_STORAGE_CLASS": "s3.storageClass",
    "KAFSCALE_S3_SERVER_SIDE_ENCRYPTION": "s3.serverSideEncryption",
    "KAFSCALE_S3_KMS_KEY_ID": "s3.kmsKeyId",
    "KAFSCALE_S3_NAMESPACE": "storage.namespace",
    "KAFSCALE_ETCD_ENDPOINTS": "etcd.endpoints",
    "KAFSCALE_ETCD_LEASE_TTL": "etcd.leaseTtl",
    "KAFSCALE_ETCD_USERNAME": "etcd.username",
    "KAFSCALE_ETCD_PASSWORD": "etcd.password",
    "KAFSCALE_ETCD_PREFIX": "etcd.prefix",
    "KAFSCALE_SEGMENT_BYTES": "storage.segmentBytes",
    "KAFSCALE_FLUSH_BYTES": "storage.flushBytes",
    "KAFSCALE_FLUSH_INTERVAL_MS": "storage.flushIntervalMs",
    "KAFSCALE_FLUSH_MESSAGES": "storage.flushMessages",
    "KAFSCALE_ACKS1": "storage.acks1",
    "KAFSCALE_FSYNC": "storage.fsync",
    "KAFSCALE_CACHE_SIZE": "cache.segmentCacheSize",
    "KAFSCALE_CACHE_BYTES": "cache.segmentCacheSize",
    "KAFSCALE_READAHEAD_SEGMENTS": "cache.readAheadSegments",
    "KAFSCALE_AUTO_CREATE_TOPICS": "topics.autoCreate",
    "KAFSCALE_AUTO_CREATE_PARTITIONS": "topics.defaultPartitions",
    "KAFSCALE_AUTHORIZATION": "authorization.enabled",
    "KAFSCALE_SUPER_USERS": "authorization.superUsers",
    "KAFSCALE_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "authorization.allowEveryoneIfNoAclFound",
    "KAFSCALE_PULSAR_ENABLED": "pulsar.enabled",
    "KAFSCALE_PULSAR_PORT": "pulsar.port",
    "KAFSCALE_FLUVIO_ENABLED": "fluvio.enabled",
    "KAFSCALE_FLUVIO_SC_PORT": "fluvio.scPort",
    "KAFSCALE_FLUVIO_SPU_PORT": "fluvio.spuPort",
    "KAFSCALE_FLUVIO_ADVERTISED_HOST": "fluvio.advertisedHost",
    "KAFSCALE_LOG_LEVEL": "logging.level",
    "KAFSCALE_LOG_FORMAT": "logging.format",
    "KAFSCALE_LOG_LONG_TURNS": "logging.longTurns",
    "KAFSCALE_AUDIT_FILE": "audit.file",
    "KAFSCALE_CONSOLE_ENABLED": "console.enabled",
    "KAFSCALE_CONSOLE_HOST": "console.host",
    "KAFSCALE_CONSOLE_PORT": "console.port",
    "KAFSCALE_CONSOLE_BASE_PATH": "console.basePath",
    "KAFSCALE_CONSOLE_READ_ONLY": "console.readOnly",
    "KAFSCALE_CONSOLE_SHOW_VALUES": "console.showValues",
    "KAFSCALE_CONSOLE_ALLOWED_HOSTS": "console.allowedHosts",
    "KAFSCALE_CONSOLE_TRUSTED_PROXIES": "console.trustedProxies",
    "KAFSCALE_CONSOLE_TLS_CERT_FILE": "console.tls.certFile",
    "KAFSCALE_CONSOLE_TLS_KEY_FILE": "console.tls.keyFile",
    "KAFSCALE_CONSOLE_ALLOW_INSECURE_BIND": "console.allowInsecureBind",
    "KAFSCALE_CONSOLE_BOOTSTRAP": "console.bootstrap",
    "KAFSCALE_CONSOLE_METRICS": "console.metrics",
    "KAFSCALE_CONSOLE_SQL": "console.sql",
    "KAFSCALE_CONSOLE_SCHEMA_REGISTRY": "console.schemaRegistry",
    "KAFSCALE_CONSOLE_PROMETHEUS": "console.prometheus",
    "KAFSCALE_CONSOLE_AUDIT_TOPIC": "console.auditTopic",
}

# Keys of a file that have Kafka's own name beside ours.
KAFKA_KEYS: Final[dict[str, str]] = {
    "super.users": "authorization.superUsers",
    "allow.everyone.if.no.acl.found": "authorization.allowEveryoneIfNoAclFound",
}

FLAGS: Final[dict[str, str]] = {
    "--broker-id": "broker.id",
    "--host": "broker.host",
    "--port": "broker.port",
    "--listeners": "listeners",
    "--advertised-listeners": "advertisedListeners",
    "--metrics-port": "broker.metricsPort",
    "--advertised-host": "broker.advertisedHost",
    "--advertised-port": "broker.advertisedPort",
    "--allow-insecure-bind": "broker.allowInsecureBind",
    "--data-dir": "broker.dataDir",
    "--bucket": "s3.bucket",
    "--namespace": "storage.namespace",
    "--memory": "useMemoryS3",
    "--log-level": "logging.level",
    "--log-format": "logging.format",
}

# Read by programs that may share an environment with the broker.
_OTHER_PROGRAMS: Final = re.compile(
    r"KAFSCALE_(BOOTSTRAP|CONFIG|USER|PASSWORD|NEW_PASSWORD|PASSWORD_FILE|CA|PROPERTIES"
    r"|SCHEMA_REGISTRY_AUTH|CONSOLE_GIVEN|(UI|OPERATOR|PROXY|SPARK|TEST|BENCH)_.*)"
)
# Kubernetes describes every service to every pod; a service called "kafscale-..." looks the same.
_SERVICE_LINK: Final = re.compile(
    r"KAFSCALE_.*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_.*)?)"
)
_SERVICE_LINK_PORT: Final = re.compile(r"(tcp|udp|sctp)://.*")


def from_environment(env: Mapping[str, str]) -> Iterator[Given]:
    """Yield the settings among the variables; an empty variable counts as not set."""
    first_name: dict[str, str] = {}
    for name, raw in sorted(env.items()):
        if not name.startswith("KAFSCALE_") or not raw.strip() or _is_of_another_program(name, raw):
            continue
        key = VARIABLES.get(name)
        if key is None:
            raise ConfigError(f"{name}: no such variable{_nearest(name, VARIABLES)}")
        other = first_name.setdefault(key, name)
        if env[other] != raw:
            raise ConfigError(f"{name} and {other} are the same setting and say different things")
        yield Given(key, name, raw)


def _is_of_another_program(name: str, raw: str) -> bool:
    if _OTHER_PROGRAMS.fullmatch(name) or _SERVICE_LINK.fullmatch(name):
        return True
    return name.endswith("_PORT") and _SERVICE_LINK_PORT.fullmatch(raw) is not None


def from_flags(flags: Mapping[str, object]) -> Iterator[Given]:
    """Yield the settings given as `--flag` or as a whole key; None means the flag is absent."""
    for name, raw in flags.items():
        if raw is not None:
            yield Given(FLAGS.get(name, name), name, raw)


def from_file(path: Path) -> Iterator[Given]:
    """Yield the settings of a YAML file under their dotted keys."""
    from kafscale.settings.yaml_file import read_tree  # loaded only where there is a file

    tree = read_tree(path)
    if tree is None:
        return
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected sections such as `broker:`, found {tree!r}")
    yield from _leaves(tree, "")


_TREES: Final = {
    "mapping.topics",
    "storage.placementByNamespace",
}  # settings whose keys the user chooses


def _leaves(tree: dict[object, object], prefix: str) -> Iterator[Given]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in _TREES:
            yield from _leaves(value, f"{key}.")
        else:
            yield Given(KAFKA_KEYS.get(key, key), key, value)


def unknown_key(name: str, keys: Iterable[str]) -> ConfigError:
    """Say that a key does not exist, and which one was perhaps meant."""
    return ConfigError(f"{name}: no such setting{_nearest(name, keys)}")


def _nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""
