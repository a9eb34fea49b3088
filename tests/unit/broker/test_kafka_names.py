from pathlib import Path

from kafscale.broker.kafka_names import broker_configs, store_name
from kafscale.model.configs.broker_configs import BROKER_NAME_OF, BrokerConfig
from kafscale.model.configs.topic_configs import TOPIC_CONFIGS
from kafscale.settings.config import Config
from kafscale.settings.sections import (
    BrokerSection,
    ConsumerSection,
    NetworkSection,
    S3Section,
    StorageSection,
    TopicsSection,
)


def rows(config: Config) -> dict[str, BrokerConfig]:
    return {row.name: row for row in broker_configs(config, 3)}


def test_an_untouched_configuration_is_all_defaults_but_for_the_brokers_number() -> None:
    found = rows(Config())
    assert {name for name, row in found.items() if not row.is_default} == {"broker.id", "node.id"}
    assert (found["broker.id"].value, found["auto.create.topics.enable"].value) == ("3", "true")


def test_the_default_of_a_bucket_is_a_default_too() -> None:
    found = rows(Config(s3=S3Section(bucket="b")))["log.flush.interval.ms"]
    assert (found.value, found.is_default) == ("500", True)


def test_chosen_settings_are_told_in_kafkas_words() -> None:
    config = Config(
        topics=TopicsSection(auto_create=False, default_partitions=6, retention_ms=7),
        storage=StorageSection(flush_messages=0),
        network=NetworkSection(max_connections_per_ip=9),
    )
    chosen = {name: row.value for name, row in rows(config).items() if not row.is_default}
    assert chosen == {
        "auto.create.topics.enable": "false",
        "broker.id": "3",
        "log.flush.interval.messages": str(2**63 - 1),
        "log.retention.ms": "7",
        "max.connections.per.ip": "9",
        "node.id": "3",
        "num.partitions": "6",
    }


def test_every_setting_of_topics_that_the_broker_has_a_default_for_is_described() -> None:
    assert set(BROKER_NAME_OF) <= set(TOPIC_CONFIGS)
    assert set(BROKER_NAME_OF.values()) <= set(rows(Config()))


def test_the_store_has_a_name_people_recognise(tmp_path: Path) -> None:
    assert store_name(Config(use_memory_s3=True)) == "memory"
    assert store_name(Config(s3=S3Section(bucket="b"))) == "s3://b/default"
    files = Config(broker=BrokerSection(data_dir=str(tmp_path)))
    assert store_name(files) == str(tmp_path / "objects")


def test_how_long_offsets_are_kept_is_told_too() -> None:
    config = Config(consumer=ConsumerSection(offsets_retention_minutes=60))
    found = rows(config)["offsets.retention.minutes"]
    assert (found.value, found.is_default) == ("60", False)
    assert rows(Config())["offsets.retention.minutes"].value == "10080"
    assert rows(Config())["group.min.session.timeout.ms"].value == "6000"
