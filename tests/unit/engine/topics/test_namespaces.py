"""Tenants and namespaces: made, listed, asked for, removed."""

from pathlib import Path

import pytest

from kafscale.engine.topics.namespaces import Namespaces
from kafscale.metadata.embedded import EmbeddedMetadataStore
from kafscale.model.errors import InvalidTopicName, NamespaceExists, UnknownNamespace

pytestmark = pytest.mark.real_time


async def test_they_are_made_listed_and_removed(tmp_path: Path) -> None:
    metadata = EmbeddedMetadataStore(tmp_path / "metadata.db", "OFF")
    made = Namespaces(metadata, on_demand=False)
    with pytest.raises(UnknownNamespace):
        await made.add("acme", "billing")
    await made.add_tenant("acme")
    await made.add("acme", "billing")
    with pytest.raises(NamespaceExists):
        await made.add_tenant("acme")
    with pytest.raises(NamespaceExists):
        await made.add("acme", "billing")
    with pytest.raises(InvalidTopicName):
        await made.add_tenant("a/b")
    assert await made.by_tenant() == {"acme": {"billing"}}
    await made.require("acme/billing/orders")
    await made.require("orders")
    with pytest.raises(InvalidTopicName, match="no namespace acme/other"):
        await made.require("acme/other/orders")
    await Namespaces(metadata, on_demand=True).require("acme/other/orders")
    await made.remove("acme", "billing")
    await made.remove("acme")
    with pytest.raises(UnknownNamespace):
        await made.remove("acme")
    assert await made.by_tenant() == {}
    await metadata.aclose()
