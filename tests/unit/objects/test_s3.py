"""What is sent to a bucket, seen from the other end of the line."""

import asyncio
import json
import ssl
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from obstore.store import S3Store

from kafscale.log.formats import keys
from kafscale.model.errors import ObjectExists, ObjectMissing, StoreRefused, StoreUnavailable
from kafscale.model.security.secret import Secret
from kafscale.objects.bucket_client import open_client
from kafscale.objects.s3 import CLASS_FROM, S3ObjectStore, S3Settings
from tests.support.certificates import Authority
from tests.support.recording_s3 import BODY, RecordingS3

FLUSHED = keys.segment("default/t/0", 7)
REWRITTEN = f"default/t/0/{keys.rewritten_name(0, 3, 0xABCD)}"
MIB = 1 << 20
SLOW_DOWN = (503, "<Error><Code>SlowDown</Code></Error>")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the machine has must not decide."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def server() -> AsyncIterator[RecordingS3]:
    async with RecordingS3() as recording:
        yield recording


@pytest.fixture
def settings(server: RecordingS3) -> S3Settings:
    return S3Settings(
        "b",
        region="eu-west-3",
        endpoint=server.endpoint,
        path_style=True,
        access_key=Secret("AK"),
        secret_key=Secret("SK"),
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("kafscale.objects.s3.asyncio.sleep", sleep)
    return slept


def counted(store: S3ObjectStore) -> Counter[str]:
    requests: Counter[str] = Counter()

    def on_request(request: str, _key: str, count: int) -> None:
        requests[request] += count

    store.on_request = on_request
    return requests


async def test_a_put_is_conditional_signed_and_in_the_region(
    server: RecordingS3, settings: S3Settings
) -> None:
    await S3ObjectStore(settings).put_new(FLUSHED, [b"ab", b"c"])
    (put,) = server.seen
    assert (put.method, put.path, put.body) == ("PUT", f"/b/{FLUSHED}", b"abc")
    assert put.headers["if-none-match"] == "*"
    assert "Credential=AK/" in put.headers["authorization"]
    assert "/eu-west-3/s3/" in put.headers["authorization"]
    for name in put.headers:
        assert not name.startswith(("x-amz-storage", "x-amz-server", "x-amz-security"))


async def test_temporary_credentials_send_their_token(
    server: RecordingS3, settings: S3Settings
) -> None:
    await S3ObjectStore(replace(settings, session_token=Secret("TOKEN"))).put_new("a", [b""])
    assert server.seen[0].headers["x-amz-security-token"] == "TOKEN"


async def test_given_keys_are_not_mixed_with_those_among_the_variables(
    server: RecordingS3, settings: S3Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "OTHER")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "OTHER")
    await S3ObjectStore(settings).put_new("a", [b""])
    assert "Credential=AK/" in server.seen[0].headers["authorization"]
    assert "x-amz-security-token" not in server.seen[0].headers


async def test_without_keys_the_variables_and_then_the_shared_files_are_asked(
    server: RecordingS3,
    settings: S3Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    bare = replace(settings, access_key=Secret(), secret_key=Secret())
    shared = tmp_path / ".aws"
    shared.mkdir()
    (shared / "credentials").write_text(
        "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n"
        "[other]\naws_access_key_id = OTHER\naws_secret_access_key = s\naws_session_token = T\n"
    )
    await S3ObjectStore(bare).put_new("a", [b""])
    monkeypatch.setenv("AWS_PROFILE", "other")
    await S3ObjectStore(bare).put_new("a", [b""])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "VARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    await S3ObjectStore(bare).put_new("a", [b""])
    used = [seen.headers["authorization"].partition("Credential=")[2] for seen in server.seen]
    assert [one.partition("/")[0] for one in used] == ["FILE", "OTHER", "VARIABLE"]
    assert [seen.headers.get("x-amz-security-token") for seen in server.seen] == [None, "T", None]


def credential_page(key: str) -> tuple[int, str]:
    return 200, json.dumps(
        {
            "AccessKeyId": key,
            "SecretAccessKey": "s",
            "Token": "T",
            "Expiration": "2099-01-01T00:00:00Z",
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": "2026-01-01T00:00:00Z",
        }
    )


async def test_a_container_gives_its_role(
    server: RecordingS3, settings: S3Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("pod")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.endpoint}/role")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    server.answers.append(credential_page("POD"))
    await S3ObjectStore(replace(settings, access_key=Secret())).put_new("a", [b""])
    asked, put = server.seen
    assert (asked.path, asked.headers["authorization"]) == ("/role", "pod")
    assert "Credential=POD/" in put.headers["authorization"]
    assert put.headers["x-amz-security-token"] == "T"


async def test_a_machine_gives_its_role(
    server: RecordingS3, settings: S3Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.endpoint)
    server.answers.extend([(200, "session"), (200, "my-role"), credential_page("MACHINE")])
    await S3ObjectStore(replace(settings, access_key=Secret())).put_new("a", [b""])
    assert [seen.path.rstrip("/").rpartition("/")[2] for seen in server.seen[:3]] == [
        "token",
        "security-credentials",
        "my-role",
    ]
    assert "Credential=MACHINE/" in server.seen[3].headers["authorization"]


@pytest.mark.parametrize(
    ("encryption", "key"), [("AES256", ""), ("aws:kms", ""), ("aws:kms", "arn:aws:kms:x:1:key/2")]
)
async def test_encryption_is_asked_for_with_every_object(
    server: RecordingS3, settings: S3Settings, encryption: str, key: str
) -> None:
    store = S3ObjectStore(
        replace(settings, encryption=encryption, kms_key=key, part_size=5 * MIB),
        keys.is_rewritten,
    )
    await store.put_new("a", [b"x"])
    await store.put_new(REWRITTEN, [bytes(6 * MIB)])
    begun = [seen for seen in server.seen if "partNumber" not in seen.query][:2]
    assert [seen.method for seen in begun] == ["PUT", "POST"]
    for seen in begun:
        assert seen.headers["x-amz-server-side-encryption"] == encryption
        assert seen.headers.get("x-amz-server-side-encryption-aws-kms-key-id", "") == key


async def test_the_storage_class_is_for_objects_that_stay(
    server: RecordingS3, settings: S3Settings
) -> None:
    store = S3ObjectStore(
        replace(settings, storage_class="STANDARD_IA", part_size=5 * MIB), keys.is_rewritten
    )
    await store.put_new(FLUSHED, [bytes(CLASS_FROM)])
    await store.put_new(FLUSHED, [bytes(CLASS_FROM - 1)])
    await store.put_new(REWRITTEN, [bytes(6 * MIB)])
    large, small, begun, *_ = server.seen
    assert large.headers["x-amz-storage-class"] == "STANDARD_IA"
    assert large.headers["if-none-match"] == "*"
    assert "x-amz-storage-class" not in small.headers
    assert begun.headers["x-amz-storage-class"] == "STANDARD_IA"


async def test_only_names_that_no_other_writer_chooses_are_uploaded_in_parts(
    server: RecordingS3, settings: S3Settings
) -> None:
    store = S3ObjectStore(replace(settings, part_size=5 * MIB), keys.is_rewritten)
    requests = counted(store)
    body = [bytes([number]) * MIB for number in range(11)]
    await store.put_new(FLUSHED, body)
    assert [seen.headers["if-none-match"] for seen in server.seen] == ["*"]
    server.seen.clear()
    await store.put_new(REWRITTEN, body)
    parts = {seen.query["partNumber"]: seen.body for seen in server.seen if seen.method == "PUT"}
    assert b"".join(parts[number] for number in sorted(parts)) == b"".join(body)
    assert sorted(map(len, parts.values())) == [MIB, 5 * MIB, 5 * MIB]
    assert requests == {"put": 1 + len(server.seen)}


async def test_an_attempt_with_unknown_outcome_is_repeated_with_growing_pauses(
    server: RecordingS3, settings: S3Settings, pauses: list[float]
) -> None:
    store = S3ObjectStore(replace(settings, max_retries=9, retry_timeout_s=1e9))
    requests = counted(store)
    server.answers.extend([SLOW_DOWN] * 9)
    await store.put_new("a", [b"x"])
    assert len(server.seen) == 10
    assert requests == {"put": 10}
    for pause_s, least_s in zip(
        pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0], strict=True
    ):
        assert least_s <= pause_s <= least_s * 1.3


async def test_every_verb_is_repeated_and_gives_up_after_so_many_attempts(
    server: RecordingS3, settings: S3Settings, pauses: list[float]
) -> None:
    store = S3ObjectStore(replace(settings, max_retries=2))
    requests = counted(store)
    for attempt, request in (
        (store.put_new("a", [b"x"]), "put"),
        (store.read("a"), "get"),
        (store.read("a", 2, 3), "get"),
        (store.find("a"), "list"),
        (store.folders("a"), "list"),
        (store.delete(["a"]), "delete"),
        (store.now_ms(), "put"),
    ):
        server.answers.extend([SLOW_DOWN] * 3)
        requests.clear()
        server.seen.clear()
        with pytest.raises(StoreUnavailable):
            await attempt
        assert len(server.seen) == 3
        assert requests == {request: 3}


async def test_a_listing_that_breaks_off_goes_on_where_it_was(
    server: RecordingS3, settings: S3Settings, pauses: list[float]
) -> None:
    def page(names: list[str], more: bool) -> tuple[int, str]:
        rows = "".join(
            f"<Contents><Key>{name}</Key><Size>1</Size>"
            "<LastModified>2026-11-16T00:00:00.000Z</LastModified></Contents>"
            for name in names
        )
        rest = "<NextContinuationToken>t</NextContinuationToken>" if more else ""
        return 200, (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"<KeyCount>{len(names)}</KeyCount>{rest}{rows}</ListBucketResult>"
        )

    first = [f"a/{number:04d}" for number in range(1000)]
    second = [f"a/{number:04d}" for number in range(1000, 1500)]
    store = S3ObjectStore(settings)
    requests = counted(store)
    server.answers.extend([page(first, True), SLOW_DOWN, page(second, False)])
    assert [row.key for row in await store.find("a")] == first + second
    assert server.seen[2].query["start-after"] == first[-1]
    assert requests["list"] in (2, 3)  # the one that failed is seen only as the end of the first


async def test_clear_answers_are_not_repeated(
    server: RecordingS3, settings: S3Settings, pauses: list[float]
) -> None:
    store = S3ObjectStore(settings)
    for attempt, status, error in (
        (store.put_new("a", [b"x"]), 412, ObjectExists),
        (store.put_new("a", [b"x"]), 403, StoreRefused),
        (store.read("a"), 404, ObjectMissing),
        (store.read("a"), 403, StoreRefused),
    ):
        server.answers.append((status, "<Error/>"))
        server.seen.clear()
        with pytest.raises(error):
            await attempt
        assert len(server.seen) == 1
    assert pauses == []


async def test_a_refusal_after_an_unknown_outcome_says_nothing_about_the_first_attempt(
    server: RecordingS3, settings: S3Settings, pauses: list[float]
) -> None:
    store = S3ObjectStore(settings)
    server.answers.extend([SLOW_DOWN, (403, "<Error/>")])
    with pytest.raises(StoreUnavailable):
        await store.put_new("a", [b"x"])


async def test_a_read_past_the_end_is_empty(server: RecordingS3, settings: S3Settings) -> None:
    store = S3ObjectStore(settings)
    requests = counted(store)
    server.answers.append((416, "<Error><Code>InvalidRange</Code></Error>"))
    assert bytes(await store.read("a", len(BODY), 5)) == b""
    assert requests == {"get": 1, "head": 1}
    assert bytes(await store.read("a", 2, 3)) == BODY[2:5]


async def test_deletions_go_a_thousand_at_a_time(server: RecordingS3, settings: S3Settings) -> None:
    store = S3ObjectStore(settings)
    requests = counted(store)
    await store.delete([f"a/{number}" for number in range(2500)])
    assert [seen.body.count(b"<Key>") for seen in server.seen] == [1000, 1000, 500]
    assert requests == {"delete": 3}


async def test_connections_are_kept_for_the_next_request(
    server: RecordingS3, settings: S3Settings
) -> None:
    keeping = S3ObjectStore(settings)
    for _ in range(3):
        await keeping.put_new("a", [b"x"])
    assert len({seen.connection for seen in server.seen}) == 1
    server.seen.clear()
    forgetting = S3ObjectStore(replace(settings, max_idle=0))
    for _ in range(3):
        await forgetting.put_new("a", [b"x"])
    assert len({seen.connection for seen in server.seen}) == 3


async def test_a_bucket_with_a_certificate_of_a_stranger_is_sent_nothing(tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").issue("bucket")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(stranger.certificate, stranger.key)
    received: list[StreamReader] = []  # of handshakes that a client has finished

    def take(reader: StreamReader, _: StreamWriter) -> None:
        received.append(reader)

    async with await asyncio.start_server(take, "127.0.0.1", 0, ssl=context) as listening:
        port = listening.sockets[0].getsockname()[1]
        wanted = S3Settings(
            "b",
            endpoint=f"https://localhost:{port}",
            path_style=True,
            access_key=Secret("AK"),
            secret_key=Secret("SK"),
            max_retries=0,
        )
        with pytest.raises(StoreUnavailable):
            await S3ObjectStore(wanted).put_new("a", [b"x"])
    assert received == []


@pytest.mark.parametrize(
    ("path_style", "expected"), [(True, "https://s3.test"), (False, "https://b.s3.test")]
)
def test_a_bucket_may_be_part_of_the_host_name(path_style: bool, expected: str) -> None:
    key = Secret("a")
    client = open_client(
        S3Settings("b", endpoint="https://s3.test/", path_style=path_style, access_key=key),
        0,
    )
    assert isinstance(client, S3Store)
    assert client.config["endpoint"] == expected
    assert client.config["virtual_hosted_style_request"] is not path_style


async def test_a_bucket_of_google_is_written_to_with_its_own_condition(
    server: RecordingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    store = S3ObjectStore(S3Settings("gs://b", endpoint=server.endpoint))
    await store.put_new("a/b", [b"x"])
    (put,) = server.seen
    assert (put.method, put.path) == ("PUT", "/b/a/b")
    assert put.headers["x-goog-if-generation-match"] == "0"


async def test_a_container_of_azure_is_written_to_with_its_own_condition(
    server: RecordingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    store = S3ObjectStore(S3Settings("az://b", endpoint=server.endpoint))
    await store.put_new("a/b", [b"x"])
    (put,) = server.seen
    assert (put.method, put.path) == ("PUT", "/b/a/b")
    assert put.headers["if-none-match"] == "*"


def test_other_places_are_refused() -> None:
    with pytest.raises(StoreRefused, match="ftp://b"):
        S3ObjectStore(S3Settings("ftp://b"))
