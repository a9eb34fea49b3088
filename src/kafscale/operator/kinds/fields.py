"""What fields of our resources are made of: kinds of text, groups of fields, buckets."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

_FREE: Final = {"x-kubernetes-preserve-unknown-fields": True}

Quantity = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Duration = Annotated[str, Meta(pattern=r"^[0-9]+(s|m|h)$")]
Text = Annotated[str, Meta(max_length=1024)]
Name = Annotated[str, Meta(max_length=253)]
FreeObject = Annotated[dict[str, Any], Meta(extra_json_schema=_FREE)]


class SpecFields(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A group of fields."""


class S3Bucket(SpecFields, frozen=True, kw_only=True):
    """A bucket."""

    bucket: Annotated[
        Text, Meta(min_length=1, description="The bucket. It must exist, and it is the cluster.")
    ]
    region: Annotated[Text, Meta(description="Its region.")] = "us-east-1"
    endpoint: Annotated[
        Text | None, Meta(description="The address of another server than AWS.")
    ] = None
    credentials_secret_ref: Annotated[
        Name | None,
        Meta(
            description="A Secret with `accessKey` and `secretKey` (or `AWS_ACCESS_KEY_ID` and "
            "`AWS_SECRET_ACCESS_KEY`). Not set: the identity of the service account."
        ),
    ] = None
