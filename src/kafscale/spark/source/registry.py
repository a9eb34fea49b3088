"""A schema registry, as far as reading needs one: a schema by its number, the newest of a subject.

Here: two questions over HTTP, answers kept for the life of the process: a number never changes
its meaning. Who we are stands in the environment (KAFSCALE_SCHEMA_REGISTRY_AUTH, user:password),
never in an option: options are shown in plans.
"""

import base64
import json
import os
import urllib.error
import urllib.request
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from kafscale.model.errors import KafscaleError

_TIMEOUT_S: Final = 10
_AUTH: Final = "KAFSCALE_SCHEMA_REGISTRY_AUTH"


class RegistryError(KafscaleError):
    """The registry does not know the schema, or did not answer."""


@lru_cache(maxsize=1024)
def by_number(url: str, number: int) -> str:
    """The schema with this number."""
    return str(_get(f"{url}/schemas/ids/{number}")["schema"])


def latest(url: str, subject: str) -> str:
    """The newest schema of a subject."""
    return str(_get(f"{url}/subjects/{quote(subject, safe='')}/versions/latest")["schema"])


def _get(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise RegistryError(f"schemaRegistry: {url} is no http(s) address")
    request = urllib.request.Request(url)
    if auth := os.environ.get(_AUTH):
        request.add_header("Authorization", "Basic " + base64.b64encode(auth.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (urllib.error.URLError, ValueError, OSError) as problem:
        raise RegistryError(f"{url}: {problem}") from problem
