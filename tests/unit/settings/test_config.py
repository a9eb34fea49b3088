"""The configuration: sources, precedence, the rules between settings, and the page about it."""

import re
from pathlib import Path

import msgspec
import pytest

from kafscale.model.endpoints import Endpoint
from kafscale.model.security.access import Principal
from kafscale.model.topics import TopicDefaults, TopicSettings
from kafscale.settings.config import Config
from kafscale.settings.loading import KEYS, load
from kafscale.settings.sections import BrokerSection, Section
from kafscale.settings.sources import CONFIG_VARIABLE, FLAGS, VARIABLES
from kafscale.settings.values import BrokerId, ConfigError, Seconds, Size
from kafscale.virtual.rules import PartitionLayout

PAGE = Path(__file__).parents[3] / "docs" / "operating" / "configuration.md"


def yaml(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "broker.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(
    path: Path | None = None,
    env: dict[str, str] | None = None,
    flags: dict[str, object] | None = None,
) -> str:
    with pytest.raises(ConfigError) as refused:
        load(path, env or {}, flags or {})
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_nothing_given_is_a_valid_configuration_and_equals_the_defaults() -> None:
    assert load(None, {}, {}) == Config()


def test_flags_beat_variables_and_variables_beat_the_file(tmp_path: Path) -> None:
    file = yaml(tmp_path, "broker: {port: 1001, metricsPort: 1002, rack: a}\n")
    env = {"KAFSCALE_BROKER_PORT": "2001", "KAFSCALE_METRICS_PORT": "2002"}
    config = load(file, env, {"--port": 3001})
    assert (config.broker.port, config.broker.metrics_port) == (3001, 2002)
    assert config.broker.rack == "a"


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load(None, {"KAFSCALE_BROKER_PORT": "7"}, {"--port": None}).broker.port == 7


def test_any_setting_can_be_given_by_its_key() -> None:
    assert load(None, {}, {"storage.flushMessages": "0"}).storage.flush_messages == 0


def test_the_file_may_be_named_by_a_variable_and_the_argument_beats_it(tmp_path: Path) -> None:
    named = yaml(tmp_path, "broker: {port: 5}\n")
    env = {CONFIG_VARIABLE: str(named)}
    assert load(None, env, {}).broker.port == 5
    other = tmp_path / "other.yaml"
    other.write_text("broker: {port: 6}\n")
    assert load(other, env, {}).broker.port == 6


def test_every_variable_reaches_an_existing_setting() -> None:
    assert set(VARIABLES.values()) <= set(KEYS)
    assert set(FLAGS.values()) <= set(KEYS)


def test_every_key_is_camel_case_of_its_attribute() -> None:
    config: object = Config()
    for key in KEYS:
        owner = config
        for part in key.split("."):
            names = {f.encode_name: f.name for f in msgspec.structs.fields(owner)}  # type: ignore[arg-type]
            owner = getattr(owner, names[part])
        assert not isinstance(owner, Section)


def test_a_complete_file_in_the_documented_form_loads(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    config = load(yaml(tmp_path, block[1]), {}, {})
    assert config.s3.bucket == "my-bucket"


def test_empty_sections_and_empty_optional_texts_count_as_not_set(tmp_path: Path) -> None:
    file = yaml(tmp_path, 'broker:\ns3: {bucket: "", endpoint: ""}\netcd: {endpoints: []}\n')
    assert load(file, {}, {}) == Config()


def test_an_empty_file_is_a_configuration(tmp_path: Path) -> None:
    assert load(yaml(tmp_path, ""), {}, {}) == Config()


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load(None, {"KAFSCALE_S3_ENDPOINT": "", "KAFSCALE_BROKER_PORT": " "}, {}) == Config()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broker: {prot: 1}", "broker.prot: no such setting; did you mean broker.port?"),
        ("zebra: 1", "zebra: no such setting"),
        ("broker: 7", "broker: expected settings under it, found 7"),
        ("broker: {port: 70000}", "broker.port: expected an integer from 0 to 65535, found 70000"),
        ("broker: {port: true}", "broker.port: expected an integer from 0 to 65535, found True"),
        ("storage: {acks1: maybe}", "storage.acks1: expected one of buffered, durable"),
        ("storage: {flushBytes: 4Zi}", "storage.flushBytes: expected a size above zero such as"),
        ("storage: {flushBytes: 0}", "storage.flushBytes: expected a size above zero such as"),
        ("storage: {fsync: perhaps}", "storage.fsync: expected true or false, found 'perhaps'"),
        ("network: {idleTimeout: 10x}", "network.idleTimeout: expected a duration above zero"),
        ("network: {idleTimeout: [1]}", "network.idleTimeout: expected a duration above zero"),
        ("broker: {rack: 3}", "broker.rack: expected text, found 3"),
        ("broker: {id: kafscale}", "broker.id: expected a number up to 2147483647 or a name"),
        ("broker: {id: -1}", "broker.id: expected a number up to 2147483647 or a name"),
        ("storage: {gracePeriod: 10ms}", "storage.gracePeriod: expected 1s or longer, found 0.01s"),
        ("broker: {id: 4294967296}", "broker.id: expected a number up to 2147483647 or a name"),
        ("etcd: {tls: {enabled: 7}}", "etcd.tls.enabled: expected true or false, found 7"),
        ("[1, 2]", "expected sections such as `broker:`"),
        ("broker: {port: 1, port: 2}", "port is written twice"),
        ("broker: {port: 1", "line 2: "),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_a_bad_file_is_refused_by_key_expectation_and_finding(
    tmp_path: Path, text: str, words: str
) -> None:
    assert words in refusal(yaml(tmp_path, text + "\n"))


def test_a_bad_variable_is_refused_under_its_own_name() -> None:
    env = {"KAFSCALE_BROKER_PORT": "nine"}
    assert refusal(env=env) == (
        "KAFSCALE_BROKER_PORT: expected an integer from 0 to 65535, found 'nine'"
    )


def test_a_bad_flag_is_refused_under_its_own_name() -> None:
    assert refusal(flags={"--port": "-1"}).startswith("--port: expected an integer from 0")


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    words = "KAFSCALE_BROKER_PROT: no such variable; did you mean KAFSCALE_BROKER_PORT?"
    assert refusal(env={"KAFSCALE_BROKER_PROT": "1"}) == words


def test_variables_of_other_programs_and_of_kubernetes_are_left_alone() -> None:
    env = {
        "KAFSCALE_UI_PASSWORD": "x",
        "KAFSCALE_OPERATOR_ETCD_ENDPOINTS": "http://etcd:2379",
        "KAFSCALE_BOOTSTRAP": "127.0.0.1:9092",
        "KAFSCALE_BROKER_SERVICE_HOST": "10.0.0.1",
        "KAFSCALE_BROKER_SERVICE_PORT_KAFKA": "9092",
        "KAFSCALE_BROKER_PORT": "tcp://10.0.0.1:9092",
        "KAFSCALE_BROKER_PORT_9092_TCP_ADDR": "10.0.0.1",
        "HOME": "/",
    }
    assert load(None, env, {}) == Config()


def test_a_secret_never_stands_in_a_refusal(tmp_path: Path) -> None:
    text = refusal(yaml(tmp_path, "s3: {secretKey: [hunter2], accessKey: a}\n"))
    assert text.startswith("s3.secretKey: expected text")
    assert "hunter2" not in text


def test_two_names_of_one_setting_must_agree() -> None:
    same = {"KAFSCALE_CACHE_SIZE": "1Gi", "KAFSCALE_CACHE_BYTES": "1Gi"}
    assert load(None, same, {}).cache.segment_cache_size == 2**30
    only = {"KAFSCALE_CACHE_BYTES": "4096"}
    assert load(None, only, {}).cache.segment_cache_size == 4096
    assert "the same setting" in refusal(env=same | {"KAFSCALE_CACHE_SIZE": "2Gi"})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "none.yaml: cannot be read: No such file" in refusal(tmp_path / "none.yaml")


LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
MERGES = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 10))
CHAIN = "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 400))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 5000, "line 1: nested more than 32 levels deep"),
        ("a: " + "{b: " * 40 + "1" + "}" * 40, "line 1: nested more than 32 levels deep"),
        (f"a0: &a0 [x]\n{CHAIN}", "nested more than 32 levels deep"),
        (f"a0: &a0 [x]\n{LAUGHS}", "more than 100,000 values, repeated ones included"),
        (f"a0: &a0 {{x: 1}}\n{MERGES}", "more than 100,000 values, repeated ones included"),
        ("a: &a [*a]", "line 1: a value contains itself"),
    ],
    ids=["flow", "maps", "chain", "laughs", "merges", "itself"],
)
def test_yaml_that_would_fill_the_memory_is_refused(tmp_path: Path, text: str, words: str) -> None:
    assert words in refusal(yaml(tmp_path, text))


def test_aliases_and_merge_keys_work(tmp_path: Path) -> None:
    text = """
mapping:
  topics:
    a: &layout {virtual_partitions: 8, physical_partitions: 2}
    b: *layout
    c: {<<: *layout, physical_partitions: 4}
"""
    rules = load(yaml(tmp_path, text), {}, {}).layout_rules
    found = [rules.layout_of(name) for name in "abc"]
    assert [(one.virtual_partitions, one.physical_partitions) for one in found] == [
        (8, 2),
        (8, 2),
        (8, 4),
    ]


def test_a_file_of_other_bytes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_bytes(b"\xff\xfe\x00b")
    assert "expected UTF-8 text" in refusal(file)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_leave(host: str) -> None:
    assert load(None, {}, {"--host": host}).broker.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "broker.example"])
def test_binding_beyond_loopback_needs_leave(host: str) -> None:
    assert "authenticates no client" in refusal(flags={"--host": host})


def test_a_wildcard_is_never_advertised() -> None:
    open_to_all: dict[str, object] = {"--host": "0.0.0.0", "--allow-insecure-bind": True}
    assert "set broker.advertisedHost" in refusal(flags=open_to_all)
    assert "cannot connect to ::" in refusal(flags={"--advertised-host": "::"})
    config = load(None, {}, open_to_all | {"--advertised-host": "broker.example"})
    assert advertised(config.broker, 9092) == Endpoint("broker.example", 9092)


def test_clients_are_told_the_bound_address_unless_another_is_given() -> None:
    here = BrokerSection(host="10.0.0.1", port=0)
    assert advertised(here, 4711) == Endpoint("10.0.0.1", 4711)
    told = BrokerSection(advertised_host="out", advertised_port=19092)
    assert advertised(told, 4711) == Endpoint("out", 19092)


def advertised(broker: BrokerSection, bound_port: int) -> Endpoint:
    (listener,) = Config(broker=broker).all_listeners
    assert listener.name == "PLAINTEXT"
    return listener.advertised(bound_port)


def test_endpoints_of_etcd_are_hosts_and_ports() -> None:
    env = {"KAFSCALE_ETCD_ENDPOINTS": "http://a:2379, b.c:1,[::1],d/"}
    etcd = load(None, env, {}).etcd
    assert etcd.targets() == ("a:2379", "b.c:1", "[::1]:2379", "d:2379")
    assert not etcd.is_encrypted()
    assert load(None, {"KAFSCALE_ETCD_ENDPOINTS": "https://a"}, {}).etcd.is_encrypted()
    for bad in ("http://", "ftp://a:1", "::1", "a:b", "a:1/path"):
        text = refusal(env={"KAFSCALE_ETCD_ENDPOINTS": bad})
        assert text.startswith("etcd.endpoints: expected host:port"), bad


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"etcd.username": "u"}, "etcd.password: expected beside etcd.username, found none"),
        ({"etcd.password": "p"}, "etcd.username: expected beside etcd.password, found none"),
        ({"etcd.tls.certFile": "c"}, "etcd.tls.keyFile: expected beside etcd.tls.certFile"),
        ({"etcd.tls.keyFile": "k"}, "etcd.tls.certFile: expected beside etcd.tls.keyFile"),
        (
            {"etcd.endpoints": "a", "etcd.tls.caFile": "c"},
            "etcd.tls.enabled: expected true, since certificates are given",
        ),
        (
            {"etcd.leaseTtl": "1s", "etcd.endpoints": "e:2379"},
            "etcd.leaseTtl: expected 2s or longer, found 1s",
        ),
        (
            {"etcd.gatherTime": "6s", "etcd.endpoints": "e:2379"},
            "etcd.gatherTime: expected 5s or shorter, found 6s",
        ),
        (
            {"etcd.endpoints": "https://a,http://b"},
            "etcd.endpoints: expected https:// as TLS is on, found 'http://b'",
        ),
    ],
)
def test_half_a_way_to_etcd_is_refused(flags: dict[str, object], text: str) -> None:
    assert refusal(flags=flags).startswith(text)


def test_a_broker_is_remembered_by_what_clients_connect_to() -> None:
    etcd = {"KAFSCALE_ETCD_ENDPOINTS": "a"}
    assert load(None, {}, {}).broker_name is None
    assert load(None, etcd, {"--port": 9092}).broker_name == "127.0.0.1:9092"
    told: dict[str, object] = {"--advertised-host": "out", "--advertised-port": 1}
    assert load(None, etcd, {"--port": 0} | told).broker_name == "out:1"
    assert load(None, etcd, {"--port": 0}).broker_name == ""


def test_half_a_credential_is_refused() -> None:
    env = {"KAFSCALE_S3_ACCESS_KEY": "a"}
    assert refusal(env=env) == "s3.secretKey: expected beside s3.accessKey, found none"
    env = {"KAFSCALE_S3_SESSION_TOKEN": "a"}
    assert refusal(env=env) == "s3.accessKey: expected beside s3.sessionToken, found none"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"--port": 9093}, "broker.metricsPort: expected another port"),
        ({"storage.namespace": "a/../b"}, "storage.namespace: expected letters"),
        ({"storage.namespace": "/a"}, "storage.namespace: expected letters"),
        ({"s3.endpoint": "minio:9000"}, "s3.endpoint: expected http://"),
        ({"topics.defaultPartitions": 2000}, "topics.defaultPartitions: expected at most"),
        ({"topics.maxMessageBytes": "1Gi"}, "topics.maxMessageBytes: expected at most"),
        (
            {"consumer.minSessionTimeoutMs": 9000, "consumer.maxSessionTimeoutMs": 8000},
            "consumer.minSessionTimeoutMs: expected at most consumer.maxSessionTimeoutMs (8000)",
        ),
        ({"network.socketSendBuffer": "2Gi"}, "network.socketSendBuffer: expected less than 2Gi"),
        ({"network.socketReceiveBuffer": "8Gi"}, "network.socketReceiveBuffer: expected less"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    flags: dict[str, object], words: str
) -> None:
    assert refusal(flags=flags).startswith(words)


def test_a_server_other_than_aws_is_addressed_by_path_unless_told_otherwise() -> None:
    local: dict[str, object] = {"--bucket": "b", "s3.endpoint": "http://127.0.0.1:9000"}
    assert load(None, {}, local).s3.path_style
    named: dict[str, object] = {"--bucket": "b", "s3.endpoint": "https://store.example"}
    assert not load(None, {}, named | {"s3.pathStyle": "false"}).s3.path_style
    assert not load(None, {}, {"--bucket": "b"}).s3.path_style
    assert refusal(flags=local | {"s3.pathStyle": "false"}).startswith(
        "s3.pathStyle: expected true"
    )


def test_a_namespace_may_have_parts() -> None:
    assert load(None, {}, {"--namespace": "team-a/prod"}).storage.namespace == "team-a/prod"


@pytest.mark.parametrize(
    ("flags", "kind", "interval_ms"),
    [
        ({}, "files", 0),
        ({"--bucket": "b"}, "s3", 500),
        ({"--memory": True}, "memory", 0),
        ({"--memory": True, "--bucket": "b"}, "memory", 0),
        ({"--bucket": "b", "storage.flushIntervalMs": 20}, "s3", 20),
    ],
)
def test_the_settings_choose_a_store_and_its_flush_interval(
    flags: dict[str, object], kind: str, interval_ms: int
) -> None:
    config = load(None, {}, flags)
    assert (config.store_kind, config.flush_interval_ms) == (kind, interval_ms)


def test_topics_get_what_the_configuration_says() -> None:
    assert load(None, {}, {}).topic_defaults == TopicDefaults()
    flags: dict[str, object] = {
        "topics.retentionMs": -1,
        "topics.retentionBytes": "1Gi",
        "storage.segmentBytes": "1Mi",
        "topics.maxMessageBytes": 2000,
        "storage.indexIntervalBytes": 100,
        "compression.type": "snappy",
        "storage.acks1": "buffered",
    }
    settings = TopicSettings.of({}, load(None, {}, flags).topic_defaults)
    assert (settings.retention_ms, settings.retention_bytes) == (-1, 2**30)
    assert (settings.segment_bytes, settings.max_message_bytes) == (2**20, 2000)
    assert (settings.index_interval_bytes, settings.compression) == (100, "snappy")
    assert settings.acks1_buffered


# The page and the code say the same, in both directions.


def rows() -> list[list[str]]:
    """Give the cells of every table row whose first cell is code."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row, line in zip(cells, lines, strict=True) if line.startswith("| `")]


def shown(value: object) -> str:
    """Write a default the way the page does."""
    if value is None:
        return "not set"
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, Seconds):
        return f"{value:g}s" if value < 120 else f"{value / 60:g}m"
    if isinstance(value, Size) and value % 1024**2 == 0:
        return f"{value // 1024**2}Mi"
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return str(value) if value not in ([], "") else "none"


def test_the_page_lists_every_setting_with_its_default_and_no_other() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows() if "KAFSCALE_" not in row[0]}
    assert listed == {key: shown(default) for key, (_, default) in KEYS.items()}


def test_the_page_lists_every_variable_with_its_setting_and_no_other() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows() if "KAFSCALE_" in row[0]}
    assert listed == VARIABLES | {CONFIG_VARIABLE: "the file to read"}
    mentioned = set(re.findall(r"KAFSCALE_[A-Z0-9_]*[A-Z0-9]", PAGE.read_text(encoding="utf-8")))
    assert mentioned <= set(listed) | {"KAFSCALE_BOOTSTRAP"}


def test_the_page_lists_every_flag_with_its_setting_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed = dict(re.findall(r"^- `(--[a-z-]+)`[^:]*: `([A-Za-z0-9.]+)`", text, re.MULTILINE))
    assert listed == FLAGS


def test_super_users_are_read_from_text_and_from_lists_under_both_names(tmp_path: Path) -> None:
    users = (Principal("User", "CN=admin,O=us"), Principal("User", "b"))
    variables = {
        "KAFSCALE_AUTHORIZATION": "on",
        "KAFSCALE_SUPER_USERS": "User:CN=admin,O=us;User:b",
    }
    assert load(None, variables, {}).authorization.super_users == users
    file = tmp_path / "kafscale.yaml"
    file.write_text(
        "authorization: {enabled: true}\n"
        "super.users: ['User:CN=admin,O=us', User:b]\n"
        "allow.everyone.if.no.acl.found: yes\n"
    )
    read = load(file, {}, {}).authorization
    assert read.super_users == users
    assert read.allow_everyone_if_no_acl_found
    with pytest.raises(ConfigError, match="KAFSCALE_SUPER_USERS: expected User:name"):
        load(None, {"KAFSCALE_AUTHORIZATION": "on", "KAFSCALE_SUPER_USERS": "admin"}, {})


@pytest.mark.parametrize(
    "setting",
    [
        {"authorization.superUsers": "User:admin"},
        {"authorization.allowEveryoneIfNoAclFound": "true"},
    ],
)
def test_rules_for_authorization_without_authorization_are_refused(
    setting: dict[str, object],
) -> None:
    with pytest.raises(ConfigError, match=r"authorization\.enabled"):
        load(None, {}, setting)


def test_a_broker_id_may_be_the_ordinal_of_a_name() -> None:
    ids = [load(None, {"KAFSCALE_BROKER_ID": raw}, {}).broker.id for raw in ("7", "kafscale-12")]
    assert ids == [BrokerId(7), BrokerId(12)]


def test_a_segment_larger_than_an_index_can_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"storage\.segmentBytes: expected less than 2Gi"):
        load(None, {}, {"storage.segmentBytes": "2Gi"})
    assert load(None, {}, {"storage.segmentBytes": "2047Mi"}).storage.segment_bytes < 2**31


def test_the_remappers_mapping_is_read_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "kafscale.yaml"
    file.write_text(
        "mapping:\n  virtual_partitions: 100\n  physical_partitions: 10\n  topics:\n"
        "    a.b: {physical_partitions: 5}\n    'metrics.*': {virtual_partitions: 50}\n"
    )
    rules = load(file, {}, {}).layout_rules
    assert rules.layout_of("orders") == PartitionLayout(100, 10)
    assert rules.layout_of("a.b") == PartitionLayout(100, 5)
    assert rules.layout_of("metrics-x") == PartitionLayout(50, 10)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mapping: {physical_partitions: 0}", "physical_partitions"),
        ("mapping: {virtual_partitions: 2, physical_partitions: 3}", "fewer than 3"),
        ("mapping: {topics: {a: {partitions: 3}}}", "mapping.topics"),
        ("mapping: {topics: {'[': {virtual_partitions: 3}}}", "pattern"),
        ("mapping: {offset_range: 5}", "2\\^20"),
        (
            "mapping: {virtual_partitions: 5000, physical_partitions: 1025}",
            r"the default: 1025 physical partitions are more than topics.maxPartitions \(1024\)",
        ),
        (
            "mapping: {topics: {'m.*': {virtual_partitions: 2000}}}",
            r"m\.\*: 2000 virtual partitions are more than topics.maxPartitions \(1024\)",
        ),
        (
            "mapping: {physical_partitions: 2, topics: {m: {virtual_partitions: 100001}}}",
            r"m: 100001 virtual .* more than topics.maxVirtualPartitions \(100000\)",
        ),
        ("mapping: {topics: {m: {virtual_partitions: 0}}}", "m: 0 virtual partitions are fewer"),
        ("mapping: {topics: {m: {physical_partitions: 0}}}", "m: there must be a physical"),
    ],
)
def test_a_mapping_that_cannot_hold_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "kafscale.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load(file, {}, {})


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"s3.bucket": "ftp://b"}, "s3.bucket: expected a name, s3://name, gs://name or az://name"),
        ({"s3.bucket": "s3://b/folder"}, "s3.bucket: expected a name"),
        ({"s3.bucket": "gs://"}, "s3.bucket: expected a name"),
        (
            {"s3.bucket": "gs://b", "s3.accessKey": "a", "s3.secretKey": "b"},
            "s3.accessKey: has no meaning for gs://b",
        ),
        (
            {"s3.bucket": "az://b", "s3.serverSideEncryption": "AES256"},
            "s3.serverSideEncryption: has no meaning for az://b",
        ),
        (
            {"s3.kmsKeyId": "k", "s3.serverSideEncryption": "AES256"},
            "s3.serverSideEncryption: expected aws:kms beside s3.kmsKeyId",
        ),
        ({"s3.serverSideEncryption": "rot13"}, "expected one of AES256, aws:kms, found 'rot13'"),
        ({"s3.partSize": "4Mi"}, "s3.partSize: expected at least 5Mi, found 4194304"),
        ({"prices.putPer1000": "-1"}, "prices.putPer1000: expected a number from 0 up, found '-1'"),
        ({"prices.getPer1000": "cheap"}, "expected a number from 0 up, found 'cheap'"),
    ],
)
def test_a_bucket_that_cannot_be_used_so_is_refused(flags: dict[str, object], words: str) -> None:
    assert words in refusal(flags=flags)


def test_a_bucket_may_have_a_scheme() -> None:
    for bucket, url in (("b", "s3://b"), ("s3://b", "s3://b"), ("gs://b", "gs://b")):
        config = load(None, {"KAFSCALE_S3_BUCKET": bucket}, {})
        assert (config.store_kind, config.s3.url) == ("s3", url)


def test_the_smaller_number_of_idle_connections_counts() -> None:
    assert load(None, {}, {}).s3.idle_connections == 100
    assert load(None, {}, {"s3.maxIdleConnsPerHost": 10}).s3.idle_connections == 10
    few = {"s3.maxIdleConns": 5, "s3.maxIdleConnsPerHost": 10}
    assert load(None, {}, few).s3.idle_connections == 5


def test_prices_may_be_anything_from_nothing_up(tmp_path: Path) -> None:
    file = yaml(tmp_path, "prices: {currency: EUR, storageGbMonth: 0.0245, getPer1000: 0}\n")
    prices = load(file, {}, {"prices.putPer1000": "0.0054"}).prices
    assert (prices.currency, prices.storage_gb_month) == ("EUR", 0.0245)
    assert (prices.get_per_1000, prices.put_per_1000) == (0.0, 0.0054)


def test_settings_that_change_nothing_are_accepted_and_named() -> None:
    given = {
        "consumer.rebalanceTimeoutMs": 2,
        "consumer.maxPollIntervalMs": 3,
    }
    assert load(None, {}, {}).without_effect == []
    assert load(None, {}, given).without_effect == list(given)
