"""Frames captured from real clients (tests/golden/kafka, made by tests/golden/capture.py)."""

import json
from pathlib import Path

import pytest

from kafscale.wire.kafka import frame
from tests.fuzz.mutations import GOLDEN
from tests.golden.annotate import as_text, from_text
from tests.golden.capture import CLIENTS, decoded

FILES = sorted(GOLDEN.glob("*.hex"))


def test_every_client_has_left_frames() -> None:
    for client in CLIENTS:
        assert len([path for path in FILES if path.name.startswith(client)]) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_captured_frame_means_what_is_written_beside_it(path: Path) -> None:
    data = from_text(path.read_text())
    assert decoded(data) == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_captured_frame_is_written_again_byte_for_byte(path: Path) -> None:
    data = from_text(path.read_text())
    body = memoryview(data)[4:]
    asked = frame.read_request(body)
    request = frame.read_body(asked, body)
    again = frame.request_frame(asked.correlation_id, request, asked.version, asked.client_id)
    assert b"".join(again) == data


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_comments_of_a_captured_frame_are_true(path: Path) -> None:
    text = path.read_text()
    title = text.splitlines()[0].removeprefix("# ")
    assert as_text(from_text(text), title) == text
