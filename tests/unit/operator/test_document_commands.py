"""The commands of the operator's page: files, flags, fields and values that they name exist."""

import argparse
import importlib
import json
from typing import Any

import msgspec
import pytest
import yaml

from kafscale.cli import main
from kafscale.operator.kinds.cluster import KafscaleCluster
from kafscale.operator.kinds.crds import CLUSTER, RESOURCES, schema_of
from tests.support.kubernetes.document import ROOT, commands, kubectl, option
from tests.unit.operator.kinds.test_crds import unknown

SHORT = {resource.short: resource for resource in RESOURCES}


def of(program: str) -> list[list[str]]:
    return [words for words in commands() if words[0] == program]


def ids(words: list[str]) -> str:
    return " ".join(words[:5])


@pytest.mark.parametrize("words", of("kafscale"), ids=ids)
def test_the_program_takes_its_arguments(words: list[str]) -> None:
    room = next(room for room, names in main._ROOMS.items() if words[1] in names)
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(f"kafscale.cli.{room}.{words[1]}").add_arguments(parser)
    parser.parse_args(words[2:])


@pytest.mark.parametrize("words", of("helm"), ids=ids)
def test_the_chart_has_the_values_that_are_set(words: list[str]) -> None:
    values = yaml.safe_load((ROOT / words[3] / "values.yaml").read_text())
    for at, word in enumerate(words):
        if word == "--set":
            found: Any = values
            for name in words[at + 1].partition("=")[0].split("."):
                found = found[name]


@pytest.mark.parametrize("words", of("kubectl"), ids=ids)
def test_kubectl_is_asked_for_what_there_is(words: list[str]) -> None:
    verb, rest = kubectl(words)
    if verb == "apply":
        file = option(rest, "-f")
        assert file == "-" or (ROOT / file).exists()
    elif verb == "patch":
        assert SHORT[rest[0]] is CLUSTER
        patch = json.loads(option(rest, "-p"))
        assert unknown(patch["spec"], schema_of(CLUSTER.spec)) == []
        sample = yaml.safe_load((ROOT / "deploy/samples/cluster.yaml").read_text())
        sample["spec"] |= patch["spec"]
        msgspec.convert(sample, KafscaleCluster)
    elif verb == "wait":
        assert "--for=condition=Ready" in rest
        assert {word.partition("/")[0] for word in rest if "/" in word} <= SHORT.keys()
    else:
        assert verb in ("create", "exec", "get", "port-forward", "run")
