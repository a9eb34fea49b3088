"""Settings of a topic: what they are, and changing them.

Next door: the table of settings (model/configs/topic_configs.py), the questions
(admin/brokers/configs.py).
"""

from typing import Final, Literal, cast

from kafscale.admin.brokers import configs as questions
from kafscale.console.answers.refusals import ApiRefusal
from kafscale.console.answers.shapes import (
    ConfigsAnswer,
    ConfigsPatch,
    TopicConfigRow,
    TopicConfigs,
)
from kafscale.console.call import ApiCall, Handlers
from kafscale.model.configs.topic_configs import TOPIC_CONFIGS

_Source = Literal["topic", "broker", "default", "other"]


async def get_configs(call: ApiCall) -> TopicConfigs:
    """Give all settings of a topic."""
    found = await call.services.cluster.ask(questions.describe_configs, call.topic)
    return TopicConfigs(items=[_row(value) for value in found])


def _row(value: questions.ConfigValue) -> TopicConfigRow:
    known = TOPIC_CONFIGS.get(value.name)
    return TopicConfigRow(
        name=value.name,
        value=value.value,
        default=known.default if known else None,
        source=cast(_Source, value.source),
        type=known.type.name.lower() if known else "string",
        doc=known.doc if known else "",
        read_only=False,
        sensitive=False,
    )


async def alter_configs(call: ApiCall) -> ConfigsAnswer:
    """Change some settings, reset others."""
    patch: ConfigsPatch = call.body
    if not patch.set and not patch.delete:
        raise ApiRefusal("invalid", "name a setting to change or to reset")
    services = call.services
    await services.cluster.ask(questions.alter_configs, call.topic, patch.set, patch.delete)
    if services.bucket is None:
        return ConfigsAnswer(moving_to=None)
    services.bucket.remembered.forget()
    moving = (await services.bucket.topic(call.topic)).moving
    return ConfigsAnswer(moving_to=moving.layout if moving else None)


HANDLERS: Final[Handlers] = {"get_configs": get_configs, "alter_configs": alter_configs}
