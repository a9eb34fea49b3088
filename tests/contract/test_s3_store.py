"""What only a bucket behind a network can do to us."""

from dataclasses import replace
from datetime import timedelta

import aiohttp
import obstore
import pytest

from kafscale.log.formats import keys
from kafscale.model.errors import ObjectExists, StoreRefused, StoreUnavailable
from kafscale.model.security.secret import Secret
from kafscale.objects.bucket_client import open_client
from kafscale.objects.s3 import CLASS_FROM, S3ObjectStore
from tests.contract.conftest import s3_settings
from tests.support.ports import free_port
from tests.support.seaweed import SeaweedServer

pytestmark = pytest.mark.slow  # the server takes seconds to start


async def test_wrong_keys_are_a_definite_refusal(
    seaweed_server: SeaweedServer, folder: str
) -> None:
    store = S3ObjectStore(replace(s3_settings(seaweed_server), secret_key=Secret("wrong")))
    for attempt in (store.put_new(f"{folder}/a", [b"x"]), store.read(f"{folder}/a")):
        with pytest.raises(StoreRefused, match="403") as refused:
            await attempt
        assert "Debug source" not in str(refused.value)
    await store.aclose()


async def test_a_refused_connection_leaves_everything_open(
    seaweed_server: SeaweedServer, folder: str
) -> None:
    settings = replace(
        s3_settings(seaweed_server), endpoint=f"http://127.0.0.1:{free_port()}", max_retries=1
    )
    store = S3ObjectStore(settings)
    for attempt in (
        store.put_new(f"{folder}/a", [b"x"]),
        store.read(f"{folder}/a"),
        store.find(folder),
        store.delete([f"{folder}/a"]),
        store.now_ms(),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt
    await store.aclose()


async def test_a_put_that_hung_may_have_been_done_and_is_reported_as_unknown(
    seaweed_server: SeaweedServer, folder: str
) -> None:
    settings = replace(s3_settings(seaweed_server), request_timeout_s=3.0, max_retries=0)
    store = S3ObjectStore(settings)
    await store.put_new(f"{folder}/warm", [b"x"])
    seaweed_server.pause()
    try:
        with pytest.raises(StoreUnavailable):
            await store.put_new(f"{folder}/a", [b"x"])
    finally:
        seaweed_server.resume()
    patient = S3ObjectStore(s3_settings(seaweed_server))
    try:
        await patient.put_new(f"{folder}/a", [b"x"])
    except ObjectExists:
        pass  # the request had arrived after all: both outcomes are honest
    assert bytes(await patient.read(f"{folder}/a")) == b"x"
    await store.aclose()
    await patient.aclose()


async def test_a_killed_server_comes_back_with_every_acknowledged_object() -> None:
    with SeaweedServer() as server:
        store = S3ObjectStore(s3_settings(server))
        names = [f"kept/{number:03d}" for number in range(50)]
        for name in names:
            await store.put_new(name, [name.encode()])
        server.kill()
        server.start()
        assert [row.key for row in await store.find("kept")] == names
        with pytest.raises(ObjectExists):
            await store.put_new(names[0], [b"other"])
        await store.aclose()


async def test_a_rewritten_segment_is_uploaded_in_parts_and_a_flushed_one_is_still_created_once(
    seaweed_server: SeaweedServer, folder: str
) -> None:
    settings = replace(s3_settings(seaweed_server), part_size=5 << 20)
    store = S3ObjectStore(settings, keys.is_rewritten)
    body = [bytes([number]) * (1 << 20) for number in range(12)]
    rewritten = f"{folder}/{keys.rewritten_name(0, 1, 7)}"
    await store.put_new(rewritten, body)
    assert bytes(await store.read(rewritten)) == b"".join(body)
    flushed = keys.segment(folder, 0)
    await store.put_new(flushed, body)
    with pytest.raises(ObjectExists):
        await store.put_new(flushed, body)
    await store.aclose()


async def test_the_server_knows_the_storage_class(
    seaweed_server: SeaweedServer, folder: str
) -> None:
    settings = replace(s3_settings(seaweed_server), storage_class="STANDARD_IA")
    store = S3ObjectStore(settings)
    body = bytes(CLASS_FROM)
    await store.put_new(f"{folder}/a", [body])
    assert bytes(await store.read(f"{folder}/a")) == body
    url = await obstore.sign_async(
        open_client(settings, 0), "GET", f"{folder}/a", timedelta(minutes=1)
    )
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.headers["x-amz-storage-class"] == "STANDARD_IA"
    await store.aclose()
