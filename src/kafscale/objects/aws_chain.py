"""Who we are at AWS, where the settings hold no keys.

Here: the choice between three sources. Keys of a profile in AWS's shared files come from
aws_profile.py. A profile that points elsewhere (single sign-on, an assumed role, a program) is
read by boto3, if it is installed: `pip install 'kafscale[aws]'`. Everything else (variables, web
identity, roles of containers and machines) is left to obstore.
Next door: the client that uses this (bucket_client.py).
"""

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafscale.model.errors import StoreRefused
from kafscale.objects import aws_profile

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3CredentialProvider  # exist in the type stubs only


def from_environment(environ: Mapping[str, str]) -> "S3CredentialProvider | None":
    """Give the source of credentials; None: obstore finds them. Raises StoreRefused.

    boto3 is loaded only for a profile that needs it: it takes a third of a second, and the two
    other sources do without.
    """
    if aws_profile.points_elsewhere(environ) and importlib.util.find_spec("boto3"):
        return Boto3Credentials()
    return aws_profile.from_environment(environ)


class Boto3Credentials:
    """Credentials by boto3's own chain; obstore calls it again when they are about to expire."""

    def __init__(self) -> None:
        """Read the profile that AWS_PROFILE names. Raises StoreRefused."""
        import boto3
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider

        try:
            # botocore renews keys ten minutes before their end; a copy may live half as long.
            self._provider = Boto3CredentialProvider(boto3.Session(), ttl=aws_profile.REREAD_AFTER)
            self()  # a person who needs this profile is told now what is wrong with it
        except (BotoCoreError, ValueError) as bad:
            raise StoreRefused(f"no credentials from the AWS profile: {bad}") from bad

    def __call__(self) -> "S3Credential":
        """Give the keys as they are now. Raises StoreRefused."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return self._provider()
        except (BotoCoreError, ClientError) as bad:
            raise StoreRefused(f"no credentials from the AWS profile: {bad}") from bad
