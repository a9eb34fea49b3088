"""The console's packages: exact versions, no addresses, whole for every platform."""

import json
from pathlib import Path
from typing import Any, Final

UI: Final = Path(__file__).parents[2] / "ui"


def lock() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((UI / "package-lock.json").read_text("utf-8"))
    return found


def test_the_lock_names_no_place_to_download_from() -> None:
    assert [name for name, one in lock()["packages"].items() if "resolved" in one] == []


def test_the_lock_has_a_checksum_for_every_package() -> None:
    without = [n for n, one in lock()["packages"].items() if n and "integrity" not in one]
    assert without == []


def test_the_lock_has_the_packages_of_all_platforms() -> None:
    packages = lock()["packages"]
    names = {path.rpartition("node_modules/")[2] for path in packages}
    wanted = {name for one in packages.values() for name in one.get("optionalDependencies", {})}
    assert wanted - names == set()


def test_versions_are_exact_and_those_of_the_lock() -> None:
    package = json.loads((UI / "package.json").read_text("utf-8"))
    packages = lock()["packages"]
    wanted = {**package["dependencies"], **package["devDependencies"]}
    assert wanted == {name: packages[f"node_modules/{name}"]["version"] for name in wanted}


def test_npm_is_told_to_write_no_addresses_and_to_run_no_scripts() -> None:
    told = (UI / ".npmrc").read_text("utf-8").split()
    assert {"omit-lockfile-registry-resolved=true", "ignore-scripts=true"} <= set(told)
