"""Which principal a client's certificate stands for: Kafka's ssl.principal.mapping.rules.

Here: the subject of a certificate as a distinguished name, and the rules that shorten it.
Next door: asking for certificates (gateways/tls.py).

Rules are split by commas, and the first one that fits counts:

    RULE:pattern/replacement/[LU]   the whole name fits the pattern; $1 is its first group;
                                    L and U make the result lower or upper case
    DEFAULT                         the whole name
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kafscale.model.errors import AuthenticationFailed

DEFAULT_RULES: Final = "DEFAULT"

_RULE: Final = re.compile(
    r"\s*(?:DEFAULT|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/"
    r"(?P<case>[LU]?))\s*(?:,|$)"
)
_GROUP: Final = re.compile(r"\\(.)|\$([0-9])")
# As RFC 2253 and Java write them; others are written by their number.
_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_EMAIL: Final = "1.2.840.113549.1.9.1"
_IA5_STRING: Final = 0x16
_MOST_SHORT: Final = 127
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')

# The subject of a certificate as Python's ssl gives it: parts, the most general one first.
Subject = Sequence[Sequence[tuple[str, str]]]


def distinguished_name(subject: Subject) -> str:
    """The subject in the form of RFC 2253, the most special part first, as Kafka matches it."""
    return ",".join(
        "+".join(_attribute(name, value) for name, value in part) for part in reversed(subject)
    )


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress":
        raw = value.encode("ascii", "replace")[:_MOST_SHORT]
        return f"{_EMAIL}=#{bytes((_IA5_STRING, len(raw))).hex()}{raw.hex()}"
    escaped = _SPECIAL.sub(r"\\\1", value)
    if escaped.startswith(("#", " ")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return f"{_SHORT_NAMES.get(name, name)}={escaped}"


class MappingRule(NamedTuple):
    """One rule; without a pattern it is DEFAULT."""

    pattern: Any  # of re2: no name makes it slow
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        """The short name, None if the rule does not fit."""
        if self.pattern is None:
            return name
        matched = self.pattern.fullmatch(name)
        if matched is None:
            return None

        def fill(place: re.Match[str]) -> str:
            if place[2] is None:
                return place[1]
            return matched.group(int(place[2])) or ""

        short = _GROUP.sub(fill, self.replacement)
        return {"L": short.lower, "U": short.upper}.get(self.case, lambda: short)()


def read_rules(text: str) -> tuple[MappingRule, ...]:
    """Read rules as Kafka writes them. Raises ValueError."""
    rules = []
    at = 0
    while at < len(text.rstrip()):
        rule = _RULE.match(text, at)
        if rule is None:
            raise ValueError(f"not DEFAULT or RULE:pattern/replacement/[LU]: {text[at:]!r}")
        at = rule.end()
        rules.append(_rule(rule))
    if not rules:
        raise ValueError("no rule")
    return tuple(rules)


def _rule(rule: re.Match[str]) -> MappingRule:
    if rule["pattern"] is None:
        return MappingRule(None, "", "")
    import re2  # loaded only where there are patterns

    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(rule["pattern"].replace(r"\/", "/"), options)
    except re2.error as problem:
        reason = problem.args[0].decode() if problem.args else "not readable"
        raise ValueError(f"pattern {rule['pattern']!r}: {reason}") from None
    groups = [int(number) for _, number in _GROUP.findall(rule["replacement"]) if number]
    if max(groups, default=0) > pattern.groups:
        raise ValueError(f"the pattern {rule['pattern']!r} has no group ${max(groups)}")
    return MappingRule(pattern, rule["replacement"], rule["case"])


def principal_name(rules: Iterable[MappingRule], subject: Subject) -> str:
    """The name of the principal that a certificate's subject stands for.

    Raises AuthenticationFailed if no rule fits.
    """
    name = distinguished_name(subject)
    for rule in rules:
        short = rule.apply(name)
        if short is not None:
            return short
    raise AuthenticationFailed(f"no rule fits the certificate's subject {name}")
