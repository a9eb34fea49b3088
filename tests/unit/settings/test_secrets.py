"""Secrets among the settings: no error, no description and no printed configuration shows one."""

import typing

import msgspec
import pytest

from kafscale.admin.diagnosis import check_all
from kafscale.broker.kafka_names import broker_configs
from kafscale.model.security.secret import Secret
from kafscale.settings.config import Config
from kafscale.settings.loading import KEYS, load
from kafscale.settings.stores import s3_settings
from kafscale.settings.values import ConfigError

SECRETS = sorted(key for key, (kind, _) in KEYS.items() if Secret in typing.get_args(kind))
_SOUNDS_SECRET = ("password", "secret", "accesskey", "token", "passphrase")


def planted(key: str) -> str:
    return f"planted-{key}"


def configured() -> Config:
    others = {"s3.bucket": "b", "s3.endpoint": "http://127.0.0.1:9", "etcd.username": "u"}
    return load(None, {}, others | {key: planted(key) for key in SECRETS})


def test_every_setting_that_sounds_like_a_secret_is_one() -> None:
    sounding = {
        key
        for key in KEYS
        if any(word in key.rpartition(".")[2].lower() for word in _SOUNDS_SECRET)
        and not key.endswith(("File", "WithoutTls"))
    }
    assert sounding == set(SECRETS)
    assert len(SECRETS) >= 4


def test_settings_can_be_printed() -> None:
    config = configured()
    shown = [
        repr(config),
        str(config),
        repr(msgspec.structs.asdict(config)),
        repr(s3_settings(config.s3)),
        repr(broker_configs(config, 1)),
        repr(config.etcd),
    ]
    assert [one for one in shown if "planted-" in one] == []
    assert config.s3.secret_key is not None
    assert config.s3.secret_key.reveal() == planted("s3.secretKey")


@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_that_is_wrong_is_not_repeated(key: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        load(None, {}, {key: ["planted-list"]})
    assert "planted" not in str(wrong.value)
    assert key in str(wrong.value)


def test_rules_between_settings_do_not_repeat_a_secret() -> None:
    for key in SECRETS:
        with pytest.raises(ConfigError) as wrong:
            load(None, {}, {"s3.bucket": "b", key: planted(key)})
        assert "planted" not in str(wrong.value)


def test_the_doctor_shows_none() -> None:
    config = configured()
    shown = [repr(result) for result in check_all(config)]
    assert shown
    assert [one for one in shown if "planted-" in one] == []
