import pytest

from kafscale.access.certificate_names import (
    DEFAULT_RULES,
    Subject,
    distinguished_name,
    principal_name,
    read_rules,
)
from kafscale.model.errors import AuthenticationFailed

# As Python's ssl gives it: the most general part first.
DUKE: Subject = (
    (("countryName", "DE"),),
    (("organizationName", "Duke, Inc."),),
    (("organizationalUnitName", "Service Users"),),
    (("commonName", "Duke"),),
)


def test_a_subject_is_written_as_java_writes_it() -> None:
    assert distinguished_name(DUKE) == "CN=Duke,OU=Service Users,O=Duke\\, Inc.,C=DE"
    assert distinguished_name(((("userId", "7"), ("commonName", " a ")),)) == "UID=7+CN=\\ a\\ "
    assert distinguished_name(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (DEFAULT_RULES, "CN=Duke,OU=Service Users,O=Duke\\, Inc.,C=DE"),
        ("RULE:^CN=(.*?),OU=Service Users.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=Service Users.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/U", "DUKE@SERVICE USERS"),
        ("RULE:^CN=Java.*$/java/, RULE:^CN=(.*?),.*$/$1/L,DEFAULT", "duke"),
        ("RULE:^OU=.*$/no/,DEFAULT", "CN=Duke,OU=Service Users,O=Duke\\, Inc.,C=DE"),
        (r"RULE:^CN=([^,]*),.*$/a\/$1/", "a/Duke"),
    ],
)
def test_the_first_rule_that_fits_counts(rules: str, name: str) -> None:
    assert principal_name(read_rules(rules), DUKE) == name


def test_a_pattern_must_fit_the_whole_name() -> None:
    with pytest.raises(AuthenticationFailed, match="no rule fits"):
        principal_name(read_rules("RULE:CN=(Duke)/$1/"), DUKE)


@pytest.mark.parametrize(
    "rules", ["", "RULE:a", "RULE:a/b", "RULE:(/b/", "RULE:a/$1/", "default", "DEFAULT;DEFAULT"]
)
def test_bad_rules(rules: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|rule|RULE|group"):
        read_rules(rules)
