import base64
import hashlib

import pytest

from kafscale.access.scram import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    credential_of_password,
    decoy,
)
from kafscale.model.errors import AuthenticationFailed

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"


def exchange(
    mechanism: ScramMechanism = SCRAM_SHA_256,
    users: dict[str, ScramCredential] | None = None,
    nonce: str = NONCE,
) -> ScramExchange:
    known = users or {"user": credential_of_password(mechanism, "pencil", SALT)}
    return ScramExchange(mechanism, nonce, lambda user, _: known.get(user), b"decoys")


def final_message(
    mechanism: ScramMechanism,
    first: bytes,
    answer: bytes,
    password: str,
    *,
    header: str = "n,,",
    nonce: str | None = None,
) -> bytes:
    """What a client answers, computed from the RFC alone."""
    parts = dict(part.split("=", 1) for part in answer.decode().split(","))
    bound = base64.b64encode(header.encode()).decode()
    unsigned = f"c={bound},r={nonce or parts['r']}"
    salted = hashlib.pbkdf2_hmac(
        mechanism.hash_name, password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
    )
    key = mechanism.sign(salted, b"Client Key")
    signed = f"{first.decode().removeprefix(header)},{answer.decode()},{unsigned}".encode()
    signature = mechanism.sign(mechanism.digest(key), signed)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()


def test_the_conversation_of_rfc_7677() -> None:
    talk = exchange()
    assert talk.step(FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert not talk.is_over
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert talk.step(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert talk.is_over
    assert talk.user == "user"


def test_the_conversation_of_rfc_5802_with_its_hash() -> None:
    """The RFC's example is for SHA-1; the rules are the same."""
    sha_1 = ScramMechanism("SCRAM-SHA-1", 0, "sha1")
    salt = base64.b64decode("QSXCR+Q6sek8bf92")
    users = {"user": credential_of_password(sha_1, "pencil", salt)}
    talk = exchange(sha_1, users, nonce="3rfcNHYJY1ZVvWVs7j")
    assert talk.step(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL") == (
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    )
    final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert talk.step(final) == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=list(SCRAM_MECHANISMS))
def test_a_right_password_and_a_wrong_one(mechanism: ScramMechanism) -> None:
    for password, is_right in (("pencil", True), ("Pencil", False), ("", False)):
        talk = exchange(mechanism)
        final = final_message(mechanism, FIRST, talk.step(FIRST), password)
        if is_right:
            assert talk.step(final).startswith(b"v=")
        else:
            with pytest.raises(AuthenticationFailed, match="invalid credentials"):
                talk.step(final)
        assert talk.is_over is is_right


def test_an_unknown_user_is_answered_like_one_with_a_wrong_password() -> None:
    first = b"n,,n=unknown,r=abc"
    answers = set()
    for _ in range(2):
        talk = exchange()
        answers.add(talk.step(first))
        with pytest.raises(AuthenticationFailed, match="invalid credentials"):
            talk.step(final_message(SCRAM_SHA_256, first, answers.copy().pop(), "pencil"))
    assert len(answers) == 1, "the same user has the same salt again"
    fields = [part[:2] for part in answers.pop().split(b",")]
    assert fields == [b"r=", b"s=", b"i="]


def test_no_proof_fits_the_decoy_even_if_its_key_is_known() -> None:
    kept = decoy(SCRAM_SHA_512, b"decoys", "unknown")
    talk = exchange(SCRAM_SHA_512)
    first = b"n,,n=unknown,r=abc"
    answer = talk.step(first)
    proof = base64.b64encode(kept.stored_key).decode()
    nonce = answer.split(b",")[0].decode()
    with pytest.raises(AuthenticationFailed):
        talk.step(f"c=biws,{nonce},p={proof}".encode())


def test_old_clients_of_librdkafka_repeat_their_part_of_the_nonce() -> None:
    mine = "rOprNGfwEbeRWgbNEkqO"
    for nonce, is_taken in (
        (f"{mine}{mine}{NONCE}", True),
        (f"{mine}{mine}{mine}{NONCE}", False),
        (f"{mine}{mine}", False),
        (f"other{mine}{NONCE}", False),
        (f"{mine}{mine}{NONCE[:-1]}", False),
        (NONCE, False),
    ):
        conversation = exchange()
        answer = conversation.step(FIRST)
        final = final_message(SCRAM_SHA_256, FIRST, answer, "pencil", nonce=nonce)
        if is_taken:
            assert conversation.step(final).startswith(b"v=")
        else:
            with pytest.raises(AuthenticationFailed, match="Invalid client nonce"):
                conversation.step(final)


def test_escaped_names_and_tokens() -> None:
    asked = []

    def find(user: str, is_token: bool) -> None:
        asked.append((user, is_token))

    for first in (b"n,,n=a=2Cb=3Dc,r=x", b"n,a=tok,n=tok,r=x,tokenauth=true", b"y,,n=a,r=x,e=1"):
        ScramExchange(SCRAM_SHA_256, NONCE, find, b"").step(first)
    assert asked == [("a,b=c", False), ("tok", True), ("a", False)]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=us=er,r=abc",
        b"n,,n=user=,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=admin,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"\xff\xfe",
        b"n,,n=user,r=abc\0",
    ],
)
def test_bad_first_messages(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        exchange().step(first)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"nonce": "rOprNGfwEbeRWgbNEkqO"}, "nonce"),
        ({"nonce": "other"}, "nonce"),
        ({"header": "y,,"}, "channel binding"),
    ],
)
def test_bad_final_messages(change: dict[str, str], match: str) -> None:
    talk = exchange()
    answer = talk.step(FIRST)
    final = final_message(SCRAM_SHA_256, FIRST, answer, "pencil", **change)  # type: ignore[arg-type]
    with pytest.raises(AuthenticationFailed, match=match):
        talk.step(final)


def test_a_proof_that_is_cut_repeated_or_missing() -> None:
    def begun() -> tuple[ScramExchange, bytes]:
        talk = exchange()
        return talk, final_message(SCRAM_SHA_256, FIRST, talk.step(FIRST), "pencil")

    for spoil in (
        lambda final: final[:-8],
        lambda final: final + b"AAAA",
        lambda final: final[:40],
    ):
        talk, final = begun()
        with pytest.raises(AuthenticationFailed):
            talk.step(spoil(final))
    talk, final = begun()
    talk.step(final)
    with pytest.raises(AuthenticationFailed, match="over"):
        talk.step(final)


def test_a_credential_shows_no_keys() -> None:
    kept = credential_of_password(SCRAM_SHA_256, "pencil", SALT)
    assert repr(kept) == "ScramCredential(iterations=4096)"
