"""Settings of mapped topics: what passes to the cluster behind, and what is refused."""

from types import ModuleType
from typing import Any

import pytest

from kafscale.proxy.apis import configs
from kafscale.wire.kafka.errors import ErrorCode
from kafscale.wire.kafka.messages import alter_configs, incremental_alter_configs
from tests.unit.proxy.apis.test_apis import ORDERS, Cluster

pytestmark = pytest.mark.asyncio
TOPIC = 2
APIS = [
    pytest.param(configs.alter_configs, alter_configs, "AlterConfigs", id="AlterConfigs"),
    pytest.param(
        configs.incremental_alter_configs,
        incremental_alter_configs,
        "IncrementalAlterConfigs",
        id="IncrementalAlterConfigs",
    ),
]


class Asked:
    """A call whose cluster answers with a row for each resource that it is asked about."""

    def __init__(self, messages: ModuleType, name: str, **wanted: dict[str, str]) -> None:
        self._messages = messages
        self.passed: list[Any] = []
        self.context = Cluster(ORDERS).context
        self.message = getattr(messages, f"{name}Request")(
            [
                messages.AlterConfigsResource(
                    TOPIC,
                    topic,
                    [messages.AlterableConfig(name=key, value=value) for key, value in own.items()],
                )
                for topic, own in wanted.items()
            ]
        )

    async def ask(self, message: Any, kind: type[Any]) -> Any:
        self.passed = message.resources
        row = self._messages.AlterConfigsResourceResponse
        return kind(responses=[row(0, None, TOPIC, one.resource_name) for one in self.passed])


@pytest.mark.parametrize(("handler", "messages", "name"), APIS)
async def test_a_mapped_topic_is_not_compacted_and_others_are_altered(
    handler: Any, messages: ModuleType, name: str
) -> None:
    compacted = {"cleanup.policy": "compact"}
    call = Asked(messages, name, orders=compacted, plain=compacted)
    answer = await handler(call)
    assert [one.resource_name for one in call.passed] == ["plain"]
    assert [(row.resource_name, row.error_code) for row in answer.responses] == [
        ("plain", ErrorCode.NONE),
        ("orders", ErrorCode.INVALID_CONFIG),
    ]
    assert type(answer).__name__ == f"{name}Response"


@pytest.mark.parametrize(("handler", "messages", "name"), APIS)
async def test_the_cluster_is_not_asked_if_all_is_refused(
    handler: Any, messages: ModuleType, name: str
) -> None:
    call = Asked(messages, name, orders={"cleanup.policy": "compact,delete"})
    answer = await handler(call)
    assert call.passed == []
    assert [row.error_message for row in answer.responses] == [configs.COMPACTED]


@pytest.mark.parametrize(("handler", "messages", "name"), APIS)
async def test_sizes_are_passed_on_for_physical_partitions(
    handler: Any, messages: ModuleType, name: str
) -> None:
    call = Asked(messages, name, orders={"retention.bytes": "1000"})
    await handler(call)
    assert [config.value for one in call.passed for config in one.configs] == ["3000"]
