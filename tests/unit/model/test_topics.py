"""Topic descriptors and topic settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafscale.model.configs.topic_configs import TOPIC_CONFIGS, magic_of
from kafscale.model.errors import CorruptObject, InvalidTopicConfig
from kafscale.model.topics import TopicDefaults, TopicDescriptor, TopicSettings, validate_configs
from tests.unit.log.pages import fields

DESCRIPTOR = TopicDescriptor(
    name="orders",
    topic_id="00112233445566778899aabbccddeeff",
    incarnation=2,
    folder="default/orders@00112233445566778899aabbccddeeff",
    partitions=6,
    logs=6,
    configs={"retention.ms": "1000"},
    created_at="2025-01-15T10:30:00Z",
)


def test_a_descriptor_survives_its_json() -> None:
    assert TopicDescriptor.decode(DESCRIPTOR.encode()) == DESCRIPTOR
    assert TopicDescriptor.decode(memoryview(DESCRIPTOR.encode())) == DESCRIPTOR


def test_a_descriptor_is_written_for_people_too() -> None:
    assert b'{\n  "name": "orders",\n  "topic_id": "0011' in DESCRIPTOR.encode()


def test_fields_of_a_newer_version_are_passed_over() -> None:
    newer = DESCRIPTOR.encode().replace(b"{", b'{"colour": "red",', 1)
    assert TopicDescriptor.decode(newer) == DESCRIPTOR


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", DESCRIPTOR.encode()[:-9]])
def test_what_is_no_descriptor_is_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptObject, match="not a topic descriptor"):
        TopicDescriptor.decode(raw)


def test_a_layout_this_version_does_not_know_is_not_guessed_at() -> None:
    with pytest.raises(CorruptObject, match="layout"):
        TopicDescriptor.decode(DESCRIPTOR.encode().replace(b'"ordinary"', b'"scattered"'))


def test_every_default_is_legal() -> None:
    validate_configs(TopicDefaults().configs())
    validate_configs({name: config.default for name, config in TOPIC_CONFIGS.items()})


def test_the_broker_defaults_are_those_of_the_table() -> None:
    assert TopicDefaults().configs() == {c.name: c.default for c in TOPIC_CONFIGS.values()}


def test_inert_settings_say_so_and_the_others_do_not() -> None:
    for config in TOPIC_CONFIGS.values():
        assert config.doc.startswith("Inert") != config.honoured, config.name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", " 5 "),
        ("retention.bytes", "9223372036854775807"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", ""),
        ("message.timestamp.difference.max.ms", "1000"),
        ("cleanup.policy", "delete, compact"),
        ("compression.type", "uncompressed"),
        ("kafscale.fetch.buffered", "TRUE"),
        ("message.format.version", "0.9.0.1"),
        ("min.cleanable.dirty.ratio", "0.25"),
        ("min.insync.replicas", "2"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
    ],
)
def test_legal_values_pass(name: str, value: str) -> None:
    validate_configs({name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "-2", "retention.ms: expected an integer from -1 to 9223372036854775807"),
        ("retention.ms", "soon", "found 'soon'"),
        ("retention.ms", "", "found ''"),
        ("retention.ms", None, "found nothing"),
        ("retention.bytes", "9223372036854775808", "expected an integer"),
        ("segment.bytes", "2147483648", "expected an integer from 14 to 2147483647"),
        ("max.message.bytes", "1.5", "expected an integer from 0"),
        ("max.message.bytes", "١٢", "expected an integer from 0"),
        ("cleanup.policy", "delete,delete", "expected delete, compact, both or nothing"),
        ("compression.type", "brotli", "expected one of producer, uncompressed"),
        ("message.timestamp.type", "createtime", "expected one of CreateTime, LogAppendTime"),
        ("message.format.version", "0.7", "expected a release"),
        ("kafscale.fetch.buffered", "1", "expected true or false"),
        ("kafscale.acks1", "fast", "expected one of durable, buffered"),
        ("min.cleanable.dirty.ratio", "1.5", "expected a number from 0 to 1"),
        ("leader.replication.throttled.replicas", "a", "expected nothing"),
        ("retention.mss", "1", "retention.mss: no topic setting has this name"),
    ],
)
def test_bad_settings_are_refused_by_name_expectation_and_value(
    name: str, value: str | None, words: str
) -> None:
    with pytest.raises(InvalidTopicConfig) as refused:
        validate_configs({name: value})
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"{name}: ")


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=20))
def test_whatever_passes_the_check_can_be_read(name: str, value: str) -> None:
    try:
        validate_configs({name: value})
    except InvalidTopicConfig:
        return
    assert TopicSettings.of({name: value}, TopicDefaults()).retention_ms >= -1


def test_a_topic_that_says_nothing_gets_the_defaults() -> None:
    settings = TopicSettings.of({}, TopicDefaults(retention_ms=5, compression_type="zstd"))
    assert settings.retention_ms == 5
    assert settings.compression == "zstd"
    assert settings.deletes
    assert settings.max_magic == 2
    assert not any([settings.compacted, settings.log_append_time, settings.fetch_buffered])
    assert not settings.acks1_buffered


def test_what_a_topic_says_beats_the_defaults() -> None:
    configs = {
        "retention.ms": "7",
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "message.format.version": "0.10.0-IV1",
        "kafscale.fetch.buffered": "True",
        "kafscale.acks1": "buffered",
    }
    settings = TopicSettings.of(configs, TopicDefaults(retention_ms=5, compression_type="zstd"))
    assert settings.retention_ms == 7
    assert settings.compression is None
    assert settings.compacted
    assert not settings.deletes
    assert settings.log_append_time
    assert settings.max_magic == 1
    assert settings.fetch_buffered
    assert settings.acks1_buffered


@pytest.mark.parametrize(
    ("raw", "codec"), [("none", "none"), ("uncompressed", "none"), ("lz4", "lz4")]
)
def test_both_words_for_no_compression_mean_the_same(raw: str, codec: str) -> None:
    assert TopicSettings.of({"compression.type": raw}, TopicDefaults()).compression == codec


@pytest.mark.parametrize(
    ("version", "magic"),
    [
        ("0", 0), ("1", 1), ("2", 2), ("0.8.2", 0), ("0.9.0", 0), ("0.10.0", 1), ("0.10.2-IV0", 1),
        ("0.11.0", 2), ("1.0", 2), ("2.8-IV1", 2), ("3.0-IV1", 2), ("4.1", 2),
        ("3", None), ("", None), ("0.7.1", None), ("latest", None), ("9" * 5000 + ".0", None),
    ],
)  # fmt: skip
def test_a_release_allows_the_format_it_knew(version: str, magic: int | None) -> None:
    assert magic_of(version) == magic


def test_the_page_about_the_bucket_lists_the_fields_of_a_descriptor() -> None:
    assert fields("bucket.md", "## Topic descriptor") == list(TopicDescriptor.__struct_fields__)
