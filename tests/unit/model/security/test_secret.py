"""A secret shows itself to nothing but the place that uses it."""

import json
import logging
import traceback
from dataclasses import dataclass

import msgspec
import orjson

from kafscale.model.security.secret import NO_SECRET, Secret

TEXT = "planted-4711"


def test_no_way_of_printing_shows_it() -> None:
    secret = Secret(TEXT)

    @dataclass
    class Holder:
        secret: Secret

    shown = [
        str(secret),
        repr(secret),
        f"{secret} {secret!r} {secret!s:>20}",
        "%s %r" % (secret, secret),  # noqa: UP031 - the old way must not show it, either
        repr(Holder(secret)),
        repr({"a": [secret]}),
        logging.makeLogRecord({"msg": "%s", "args": (secret,)}).getMessage(),
        orjson.dumps({"a": secret}, default=str).decode(),
        json.dumps({"a": secret}, default=repr),
        msgspec.json.encode({"a": secret}, enc_hook=str).decode(),
    ]
    assert [one for one in shown if TEXT in one] == []
    try:
        raise ValueError("bad", secret)
    except ValueError as problem:
        told = "".join(traceback.format_exception(problem))
    assert TEXT not in told


def test_it_is_what_it_is_where_it_is_used() -> None:
    assert Secret(TEXT).reveal() == TEXT
    assert Secret(TEXT) == Secret(TEXT) != Secret("other")
    assert Secret(TEXT) != TEXT
    assert hash(Secret(TEXT)) == hash(Secret(TEXT))
    assert Secret(TEXT)
    assert not NO_SECRET
