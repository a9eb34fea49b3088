"""Rows S2 to S8: clients that lie about who they are, at a broker that asks them.

Each is answered in the protocol's own words and loses its connection. The broker goes on, others
are served, and nothing of it costs memory.
"""

import base64
import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from kafscale.access.scram import SCRAM_SHA_256
from tests.bad_input.attacked_broker import CountingProcess, Victim, is_closed
from tests.support.certificates import Authority, TokenIssuer
from tests.support.ports import free_port
from tests.support.wire import frame, string
from tests.unit.access.test_scram import final_message

METADATA, HANDSHAKE, AUTHENTICATE = 3, 17, 36
BAD_MECHANISM, ILLEGAL_STATE, FAILED = 33, 34, 58
USER, PASSWORD = "admin", "the-admins-own-password"
PLAIN_USER, PLAIN_PASSWORD = "paula", "paulas-own-password"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
FIRST = f"n,,n={USER},r=rOprNGfwEbeRWgbNEkqO".encode()


class ListeningProcess(CountingProcess):
    """Its addresses are in its file alone."""

    def environment(self) -> dict[str, str]:
        env = super().environment()
        del env["KAFSCALE_BROKER_PORT"]
        return env


class GuardedVictim(Victim):
    """Bystanders come in without a login, attackers by the listeners that ask for one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.process = ListeningProcess(folder / "broker", self.process.extra_env)
        self.sasl_port, self.tls_port = free_port(), free_port()
        authority = Authority(folder, "authority")
        own = authority.issue("broker", file_name="broker")
        self.issuer = TokenIssuer(folder)
        (folder / "users").write_text(f"{PLAIN_USER}={PLAIN_PASSWORD}\n")
        (folder / "password").write_text(PASSWORD)
        settings = folder / "kafscale.yaml"
        more = {
            "listeners": [
                {"name": "PLAINTEXT", "port": self.process.port},
                {"name": "SASL_PLAINTEXT", "port": self.sasl_port, "mechanisms": MECHANISMS},
                {"name": "SSL", "port": self.tls_port},
            ],
            "tls": {"certFile": str(own.certificate), "keyFile": str(own.key)},
            "sasl": {
                "allowPlainWithoutTls": True,
                "failureDelay": "10ms",
                "usersFile": str(folder / "users"),
                "adminUser": USER,
                "adminPasswordFile": str(folder / "password"),
                "oauth": {
                    "jwksFile": str(self.issuer.keys_file),
                    "issuer": self.issuer.url,
                    "audiences": ["kafscale"],
                },
            },
        }
        lines = (f"{name}: {json.dumps(value)}\n" for name, value in more.items())
        settings.write_text(settings.read_text() + "".join(lines))

    def begin(self, mechanism: str, version: int = 1) -> "Client":
        """A client that has named its mechanism."""
        client = Client(self)
        assert client.handshake(mechanism, version)[:2] == b"\0\0"
        return client


class Client:
    """A connection to the listener with logins."""

    def __init__(self, victim: GuardedVictim) -> None:
        self._victim = victim
        self.sock = victim.connect(port=victim.sasl_port)

    def handshake(self, mechanism: str, version: int = 1) -> bytes:
        return self._victim.ask(self.sock, frame(HANDSHAKE, version, 1, string(mechanism)))

    def say(self, message: bytes) -> tuple[int, bytes]:
        """Code and message of the answer to a message of the mechanism (SaslAuthenticate 0)."""
        size = struct.pack(">i", len(message))
        body = self._victim.ask(self.sock, frame(AUTHENTICATE, 0, 2, size + message))
        (code,) = struct.unpack_from(">h", body)
        at = 4 + max(0, struct.unpack_from(">h", body, 2)[0])
        return code, body[at + 4 :]

    def is_refused(self, message: bytes) -> bool:
        return self.say(message)[0] == FAILED and is_closed(self.sock)


@pytest.fixture(scope="module")
def _guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedVictim]:
    victim = GuardedVictim(tmp_path_factory.mktemp("guarded"))
    with victim.process:
        client = victim.begin("SCRAM-SHA-256")
        answer = client.say(FIRST)[1]
        assert client.say(final_message(SCRAM_SHA_256, FIRST, answer, PASSWORD))[0] == 0
        assert victim.begin("PLAIN").say(f"\0{PLAIN_USER}\0{PLAIN_PASSWORD}".encode())[0] == 0
        assert victim.begin("OAUTHBEARER").say(bearer(victim.issuer.token("olga")))[0] == 0
        yield victim


@pytest.fixture
def victim(_guarded: GuardedVictim) -> Iterator[GuardedVictim]:
    yield _guarded
    _guarded.close_connections()


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


@pytest.mark.parametrize("api", [METADATA, 0, 1, 19, 29, 38, 48, 51])
def test_s2_requests_before_the_login_close_the_connection(victim: GuardedVictim, api: int) -> None:
    with victim.suffers("not_authenticated"):
        client = Client(victim)
        client.sock.sendall(frame(api, 1, 1, bytes(20)))
        assert is_closed(client.sock)


def test_s2_requests_between_two_messages_close_the_connection(victim: GuardedVictim) -> None:
    with victim.suffers("not_authenticated"):
        client = victim.begin("SCRAM-SHA-256")
        assert client.say(FIRST)[0] == 0
        client.sock.sendall(frame(METADATA, 1, 1, bytes(4)))
        assert is_closed(client.sock)


def test_s2_a_message_without_a_mechanism_is_out_of_place(victim: GuardedVictim) -> None:
    with victim.suffers("illegal_sasl_state"):
        client = Client(victim)
        assert client.say(FIRST)[0] == ILLEGAL_STATE
        assert is_closed(client.sock)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "scram-sha-256", "x" * 32_767])
def test_s3_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(
    victim: GuardedVictim, mechanism: str
) -> None:
    with victim.suffers("unsupported_sasl_mechanism"):
        client = Client(victim)
        body = client.handshake(mechanism)
        names = b"".join(map(string, MECHANISMS))
        assert body == struct.pack(">hi", BAD_MECHANISM, len(MECHANISMS)) + names
        assert is_closed(client.sock)


def test_s3_a_mechanism_cannot_be_changed_midway(victim: GuardedVictim) -> None:
    with victim.suffers("illegal_sasl_state"):
        client = victim.begin("SCRAM-SHA-256")
        assert client.say(FIRST)[0] == 0
        assert client.handshake("PLAIN")[:2] == struct.pack(">h", ILLEGAL_STATE)
        assert is_closed(client.sock)


def test_s4_a_wrong_user_and_a_wrong_password_are_told_the_same(victim: GuardedVictim) -> None:
    with victim.suffers(None):
        told = set()
        for user, password in ((USER, "wrong"), ("unknown", PASSWORD)):
            client = victim.begin("SCRAM-SHA-256")
            first = f"n,,n={user},r=rOprNGfwEbeRWgbNEkqO".encode()
            answer = client.say(first)[1]
            told.add(client.say(final_message(SCRAM_SHA_256, first, answer, password)))
            assert is_closed(client.sock)
        assert {code for code, _ in told} == {FAILED}
        assert len(told) == 1
        for said in (f"\0{PLAIN_USER}\0wrong", f"\0unknown\0{PLAIN_PASSWORD}"):
            assert victim.begin("PLAIN").is_refused(said.encode())


@pytest.mark.parametrize("length", [(128 << 10) + 1, 100 << 20, 2**31 - 1])
def test_s5_a_large_frame_before_the_login_is_refused_before_it_comes(
    victim: GuardedVictim, length: int
) -> None:
    with victim.suffers("frame_too_large"):
        client = Client(victim)
        client.sock.sendall(struct.pack(">i", length))
        assert is_closed(client.sock)


def test_s5_very_many_small_frames_before_the_login_are_too_much(victim: GuardedVictim) -> None:
    before = victim.refusals()
    client = Client(victim)
    client.sock.sendall(frame(18, 0, 1, b"") * 100)
    while client.sock.recv(1 << 16):
        pass
    assert sum(victim.refused_since(before).values()) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"r=rOpr", b"r=xxxx"),  # another client's nonce
        lambda final: final.replace(b"r=", b"r=,", 1),
        lambda final: final.partition(b",p=")[0],  # no proof
        lambda final: final[:-4],  # a proof cut short
        lambda final: final + b"," + final,  # everything twice
        lambda final: final + b"A" * 60_000,
        lambda final: final.replace(b"c=biws", b"c=eSws"),  # another binding than was said
        lambda final: final.replace(b",p=", b",p=!"),
        lambda final: b"",
        lambda final: b"\xff\xfe" + final,
        lambda final: FIRST,  # the first message again
    ],
)
def test_s6_a_final_message_that_does_not_fit_is_refused(
    victim: GuardedVictim, change: "object"
) -> None:
    with victim.suffers(None):
        client = victim.begin("SCRAM-SHA-256")
        answer = client.say(FIRST)[1]
        final = final_message(SCRAM_SHA_256, FIRST, answer, PASSWORD)
        assert client.is_refused(change(final))  # type: ignore[operator]


def test_s6_a_final_message_of_another_conversation_is_refused(victim: GuardedVictim) -> None:
    with victim.suffers(None):
        one, other = victim.begin("SCRAM-SHA-256"), victim.begin("SCRAM-SHA-256")
        final = final_message(SCRAM_SHA_256, FIRST, one.say(FIRST)[1], PASSWORD)
        assert other.say(FIRST)[0] == 0
        assert other.is_refused(final)
        assert one.say(final)[0] == 0


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=,r=abc",
        b"n,,n=admin",
        b"n,,n=admin,r=",
        b"n,,n=admin,r=with,comma",
        b"n,,n=admin,r=sp ace",
        b"p=tls-unique,,n=admin,r=abc",  # a binding that is not offered
        b"n,,n=ad=2min,r=abc",
        b"n,,m=must-know,n=admin,r=abc",
        b"\0" * 1000,
        b"n,,n=" + b"a" * 100_000 + b",r=abc",
    ],
)
def test_s6_a_first_message_that_is_none_is_refused(victim: GuardedVictim, first: bytes) -> None:
    with victim.suffers(None):
        client = victim.begin("SCRAM-SHA-512")
        code, _ = client.say(first)
        if code == 0:  # a name of any length may be asked for: it is that of no user
            code, _ = client.say(b"c=biws,r=abc,p=AAAA")
        assert code == FAILED
        assert is_closed(client.sock)


def test_s7_another_authorization_id_is_refused(victim: GuardedVictim) -> None:
    with victim.suffers(None):
        said = f"{USER}\0{PLAIN_USER}\0{PLAIN_PASSWORD}"
        assert victim.begin("PLAIN").is_refused(said.encode())
        first = f"n,a={PLAIN_USER},n={USER},r=abc".encode()
        assert victim.begin("SCRAM-SHA-256").is_refused(first)
        token = victim.issuer.token("olga")
        assert _is_bad_token(victim, f"n,a={USER},\x01auth=Bearer {token}\x01\x01".encode())


@pytest.mark.parametrize(
    "message",
    [b"", b"\0", b"\0paula", b"\0\0x", b"\0paula\0", b"\0" * 5000, b"\xff\0\xff\0\xff"],
)
def test_s7_plain_messages_that_are_none_are_refused(victim: GuardedVictim, message: bytes) -> None:
    with victim.suffers(None):
        assert victim.begin("PLAIN").is_refused(message)


def test_s8_tokens_that_prove_nothing_are_refused(victim: GuardedVictim) -> None:
    issuer, now = victim.issuer, int(time.time())
    claims = {"iss": issuer.url, "aud": "kafscale", "sub": "olga", "exp": now + 600}
    head, body, signature = issuer.token("olga").split(".")
    unsigned = ".".join((_part({"alg": "none"}), _part(claims), ""))
    shared = ".".join((_part({"alg": "HS256", "kid": "first"}), _part(claims), signature))
    stranger = RSAKey.generate_key(2048, {"kid": "first"})
    unknown = RSAKey.generate_key(2048, {"kid": "unknown"})
    with victim.suffers(None):
        for token in (
            unsigned,
            shared,
            jwt.encode({"alg": "RS256", "kid": "first"}, claims, stranger),
            jwt.encode({"alg": "RS256", "kid": "unknown"}, claims, unknown),
            issuer.token("olga", -3600),
            issuer.token("olga", aud="another"),
            issuer.token("olga", iss="https://another.test"),
            issuer.token("olga", nbf=now + 3600),
            issuer.token(""),
            f"{head}.{body}",
            f"{head}.{body}.{signature[:-8]}",
            f"{head}.{_part(claims | {'sub': USER})}.{signature}",
            "a.b.c",
            "x" * 100_000,
            ".".join((head, "A" * 90_000, signature)),
        ):
            assert _is_bad_token(victim, bearer(token)), token[:80]


def _part(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _is_bad_token(victim: GuardedVictim, message: bytes) -> bool:
    """A refused token is answered with JSON; the failure follows the client's one byte."""
    client = victim.begin("OAUTHBEARER")
    code, said = client.say(message)
    if code == 0 and said.startswith(b"{"):
        code, _ = client.say(b"\x01")
    return code == FAILED and is_closed(client.sock)


@pytest.mark.parametrize("message", [b"\0\0\0\0", struct.pack(">i", -1), b"\0\0\0\5hello"])
def test_frames_without_header_that_are_no_messages_close_the_connection(
    victim: GuardedVictim, message: bytes
) -> None:
    before = victim.refusals()
    client = victim.begin("PLAIN", version=0)
    client.sock.sendall(message)
    assert is_closed(client.sock)
    assert sum((victim.refusals() - before).values()) <= 1
    assert victim.process.running


@pytest.mark.parametrize(
    "hello", [frame(18, 0, 1, b""), b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\xff\xff"]
)
def test_f9_other_protocols_at_the_door_with_tls_close_the_connection(
    victim: GuardedVictim, hello: bytes
) -> None:
    with victim.suffers("handshake_failed"):
        sock = victim.connect(port=victim.tls_port)
        sock.sendall(hello + bytes(66_000) if hello[:1] == b"\x16" else hello)
        assert _ends(sock)


def _ends(sock: object) -> bool:
    """An alert may come first."""
    try:
        while sock.recv(1000):  # type: ignore[attr-defined]
            pass
    except ConnectionResetError:
        pass
    return True
