"""The page itself: its own checks, its size, and that it asks no other host for anything."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ui
from tests.support.maven import ROOT, Unavailable

LOGIN_KB = 85
ALL_KB = 180


def packed(*files: Path) -> float:
    """Size as a browser loads it, in kB."""
    return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) / 1000


def test_style_types_and_units_of_the_page_hold() -> None:
    try:
        folder = ui.checked_out()
    except Unavailable as problem:
        pytest.skip(f"the page cannot be checked here: {problem}")
    assert "passed" in ui.npm(folder, "run", "check")


def test_the_lock_is_whole_for_every_platform_and_names_no_address() -> None:
    lock = json.loads((ui.UI / "package-lock.json").read_text("utf-8"))
    packages = lock["packages"]
    assert len(packages) > 50
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert name == "" or "integrity" in package, name
        for wanted in package.get("optionalDependencies", {}):
            places = (f"node_modules/{wanted}", f"{name}/node_modules/{wanted}")
            assert any(place in packages for place in places), f"{name} may need {wanted}"


def test_the_login_is_small(static: Path) -> None:
    index = (static / "index.html").read_text("utf-8")
    first = [static / name for name in re.findall(r'(?:src|href)="\./([^"]+)"', index)]
    assert len(first) >= 3
    assert packed(*first) < LOGIN_KB


def test_everything_is_small(static: Path) -> None:
    files = [file for file in static.rglob("*") if file.is_file()]
    assert len(files) > 10
    assert packed(*files) < ALL_KB


def test_a_wheel_carries_the_page(static: Path, tmp_path: Path) -> None:
    """Built as a wheel is, but for what is compiled."""
    build = "from setuptools import setup; setup()"
    words = ["egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(tmp_path)]
    run = [sys.executable, "-c", build, "--quiet", *words]
    subprocess.run(run, cwd=ROOT, capture_output=True, timeout=250, check=True)
    carried = tmp_path / "kafscale/console/static"
    names = {file.relative_to(static) for file in static.rglob("*") if file.is_file()}
    assert {file.relative_to(carried) for file in carried.rglob("*") if file.is_file()} == names


def test_the_page_has_no_script_or_style_inside_and_names_no_other_host(static: Path) -> None:
    index = (static / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", index) == []
    text = index + "".join(file.read_text("utf-8") for file in static.rglob("*.css"))
    assert re.findall(r"https?://[^\s\"')]+", text) == []


def test_without_scripts_there_is_a_sentence(static: Path) -> None:
    index = (static / "index.html").read_text("utf-8")
    assert "needs JavaScript" in index.split("<noscript>")[1].split("</noscript>")[0]


def test_the_stand_in_of_the_api_is_not_shipped(static: Path) -> None:
    scripts = "".join(file.read_text("utf-8") for file in static.rglob("*.js"))
    assert "stand-in" not in scripts
    assert "search-indexer" not in scripts  # a group of the sample data
