"""A manifest PUT and how its author learns what became of it (rules 6 and 7).

In this room: the steps that roll-up and foreign jobs share.
Next door: the actors that plan manifests (writers.py, jobs.py), the deleter, which condemns
outputs (deleter.py).
"""

from collections.abc import Iterator
from typing import Any

from tests.model.state import (
    Commit,
    Key,
    Manifest,
    Rules,
    State,
    delete,
    leave_behind,
    manifest_at,
    put_manifest,
)


def successor(newest: Manifest, plan: str, **changed: Any) -> Manifest:
    """The next generation; everything that is not changed is handed on (rule 8)."""
    return newest._replace(generation=newest.generation + 1, plan=plan, **changed)


def names(manifest: Manifest, key: Key) -> bool:
    return any(entry.key == key for entry in manifest.entries)


def steps(state: State, commit: Commit, rules: Rules) -> Iterator[tuple[str, State, Commit]]:
    """Outcomes in `answer`: committed, lost (another actor took the name), buried (the name is
    ours, but no reader saw the manifest), given up (only without rule 6)."""
    name = f"manifest {commit.manifest.generation}"
    if commit.answer == "":
        created = put_manifest(state, commit.manifest)
        answer = "created" if created is not None else "exists"
        if created is not None and not rules.commit_listed:
            answer = "committed"  # believed at once
        yield f"PUT {name} executes: {answer}", created or state, commit._replace(answer=answer)
        if state.faults:
            yield _times_out(state, commit, rules)
        return
    yield resolve(state, commit, rules)
    if state.faults:
        after = state._replace(faults=state.faults - 1)
        yield f"answer of PUT {name} is lost; retries", after, commit._replace(answer="")


def _times_out(state: State, commit: Commit, rules: Rules) -> tuple[str, State, Commit]:
    after = leave_behind(state._replace(faults=state.faults - 1), [commit.manifest])
    label = f"PUT manifest {commit.manifest.generation} times out and may execute late"
    if rules.commit_resolved:
        return f"{label}; retries", after, commit
    for key in commit.outputs:
        after = delete(after, key)
    return f"{label}; concludes 'lost', removes outputs", after, commit._replace(answer="given up")


def resolve(state: State, commit: Commit, rules: Rules) -> tuple[str, State, Commit]:
    """Rule 6: compare the commit id, then LIST: only what the newest manifest says counts."""
    ours = commit.manifest
    if commit.answer == "exists":
        there = manifest_at(state, ours.generation)
        if there is None or there.plan != ours.plan:
            return f"manifest {ours.generation} is another's", state, commit._replace(answer="lost")
    newest = state.newest
    if not rules.commit_listed or newest.plan == ours.plan:
        answer = "committed"
    elif commit.outputs and all(names(newest, key) for key in commit.outputs):
        answer = "adopted"
    else:
        answer = "buried"
    label = f"lists: newest is {newest.generation}: own manifest {ours.generation} is {answer}"
    return label, state, commit._replace(answer=answer)
