"""Which source gives credentials of AWS.

Single sign-on is not tested: it needs a browser and an identity provider. Roles are assumed of a
stub of AWS's token service.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from kafscale.model.errors import StoreRefused
from kafscale.objects import aws_chain
from kafscale.objects.aws_profile import ProfileCredentials
from kafscale.objects.s3 import S3ObjectStore, S3Settings
from tests.support.recording_s3 import RecordingS3

KEYS = '{"Version": 1, "AccessKeyId": "BY-PROGRAM", "SecretAccessKey": "s", "SessionToken": "T"}'
ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleResult><Credentials><AccessKeyId>ASSUMED</AccessKeyId>
<SecretAccessKey>s</SecretAccessKey><SessionToken>R</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult>
</AssumeRoleResponse>"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".aws").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / ".aws/credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / ".aws/config"))
    monkeypatch.setenv("AWS_PROFILE", "company")
    return tmp_path


def write_config(home: Path, text: str) -> None:
    (home / ".aws/config").write_text(text)


async def test_a_program_that_gives_keys_is_asked_and_its_keys_sign_requests(home: Path) -> None:
    program = home / "give-keys"
    program.write_text(f"#!/bin/sh\necho '{KEYS}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    write_config(home, f"[profile company]\ncredential_process = {program}\nregion = eu-west-9\n")
    async with RecordingS3() as server:
        store = S3ObjectStore(
            S3Settings("b", region="us-east-1", endpoint=server.endpoint, path_style=True)
        )
        await store.put_new("a", [b"x"])
        await store.aclose()
    headers = server.seen[0].headers
    assert "Credential=BY-PROGRAM/" in headers["authorization"]
    assert "/us-east-1/s3/" in headers["authorization"]  # never the profile's region
    assert headers["x-amz-security-token"] == "T"


class TokenService(BaseHTTPRequestHandler):
    """Lets every caller assume every role."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert "Action=AssumeRole" in asked
        assert "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fbroker" in asked
        body = ASSUMED.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def token_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), TokenService)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_address[1]}")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("token_service")
def test_a_profile_with_a_role_assumes_it(home: Path) -> None:
    (home / ".aws/credentials").write_text(
        "[base]\naws_access_key_id = K\naws_secret_access_key = S\n"
    )
    write_config(
        home,
        "[profile company]\nrole_arn = arn:aws:iam::123456789012:role/broker\n"
        "source_profile = base\nregion = us-east-1\n",
    )
    provider = aws_chain.from_environment(os.environ)
    assert isinstance(provider, aws_chain.Boto3Credentials)
    keys = provider()
    assert (keys["access_key_id"], keys.get("token")) == ("ASSUMED", "R")


def test_a_profile_with_keys_needs_no_boto3(home: Path) -> None:
    write_config(
        home, "[profile company]\naws_access_key_id = K\naws_secret_access_key = S\nrole_arn = x\n"
    )
    assert isinstance(aws_chain.from_environment(os.environ), ProfileCredentials)


def test_variables_come_before_a_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(home, "[profile company]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "K")
    assert aws_chain.from_environment(os.environ) is None


def test_without_boto3_such_a_profile_is_refused_with_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(home, "[profile company]\nsso_session = x\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StoreRefused, match=r"sso_session is not supported .*kafscale\[aws\]"):
        aws_chain.from_environment(os.environ)


@pytest.mark.parametrize(
    "text",
    [
        "[profile company]\nsso_session = x\n",
        "[profile company]\nrole_arn = x\nsource_profile = missing\n",
        "[profile company]\ncredential_process = false\n",
    ],
)
def test_a_profile_that_gives_no_keys_is_refused_at_once(home: Path, text: str) -> None:
    write_config(home, text)
    with pytest.raises(StoreRefused, match="no credentials from the AWS profile"):
        aws_chain.from_environment(os.environ)


def test_a_store_with_keys_of_its_own_loads_no_boto3() -> None:
    code = (
        "import sys; from kafscale.objects.s3 import S3ObjectStore, S3Settings; "
        "from kafscale.model.security.secret import Secret; "
        "S3ObjectStore(S3Settings('b', access_key=Secret('k'), secret_key=Secret('s'))); "
        "print('boto3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
