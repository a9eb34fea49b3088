import pytest

from kafscale.gateways.kafka import router
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages.api_versions import ApiVersionsRequest
from tests.unit.gateways.kafka.caller import Caller

EVERYTHING = {(api.API_KEY, api.VERSIONS[0], api.VERSIONS[-1]) for api in router.APIS}


@pytest.mark.parametrize("version", range(5))
async def test_every_version_lists_exactly_what_is_offered(caller: Caller, version: int) -> None:
    answer = await caller.ask(ApiVersionsRequest("librdkafka", "2.3.0-rc1"), version)
    assert answer.error_code == ErrorCode.NONE
    rows = {(row.api_key, row.min_version, row.max_version) for row in answer.api_keys}
    assert rows == EVERYTHING


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("apache-kafka-java", "3.9.0", 0),
        ("a", "1", 0),
        ("", "1", 42),
        ("ok", "", 42),
        ("ends-", "1", 42),
        ("a b", "1", 42),
        ("ok\n", "1", 42),
    ],
)
async def test_a_client_names_itself_in_letters_digits_dashes_and_dots(
    caller: Caller, name: str, version: str, code: int
) -> None:
    assert (await caller.ask(ApiVersionsRequest(name, version), 3)).error_code == code


def test_every_api_is_listed_once_and_understood_by_the_codec() -> None:
    keys = [api.API_KEY for api in router.APIS]
    assert len(set(keys)) == len(keys)
    assert tuple((api.API_KEY, api.VERSIONS) for api in router.APIS) == router.OFFERED


@pytest.mark.parametrize("version", [3, 4])
async def test_clients_hear_which_features_all_brokers_have(caller: Caller, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    told = await caller.ask(request, version)
    levels = {"group.version": 1, "share.version": 1, "transaction.version": 2}
    known = {row.name: (row.min_version, row.max_version) for row in told.supported_features}
    # A lowest level of 0 is an error to clients before version 4.
    assert known == ({name: (0, most) for name, most in levels.items()} if version == 4 else {})
    assert {row.name: row.max_version_level for row in told.finalized_features} == levels
    assert told.finalized_features_epoch >= 0
