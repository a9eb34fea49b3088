"""Foreign jobs that rewrite history beside the owner: compaction and retention.

In this room: planning on the newest manifest, losing the race (rule 7), what a manifest keeps
(rule 8).
Next door: the manifest PUT itself (commits.py).
"""

from collections.abc import Iterator

from tests.model import commits
from tests.model.state import (
    Bounds,
    Commit,
    Entry,
    Job,
    Manifest,
    Output,
    Rules,
    State,
    exists,
    leave_behind,
    output_of,
    put_output,
    segment_at,
)

Move = tuple[str, State, Job]


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[tuple[str, State]]:
    for n, job in enumerate(state.jobs):
        for label, after, memory in _steps_of(state, job, rules, bounds):
            jobs = (*state.jobs[:n], memory, *state.jobs[n + 1 :])
            yield f"{job.name}: {label}", after._replace(jobs=jobs)


def _steps_of(state: State, job: Job, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    commit = job.commit
    if commit is None:
        if state.newest.generation < bounds.generations:
            yield from _plan(state, job, rules)
        return
    if commit.answer.startswith("unseen"):
        yield _look_at_outputs(state, job, commit)
    elif commit.answer == "looked":  # only with the two looks in the wrong order
        yield _rebase(state, job, commit, rules, "")
    else:
        for label, after, outcome in commits.steps(state, commit, rules):
            yield _after_put(label, after, job, outcome, rules, bounds)
    if bounds.crashes and state.faults:
        puts = [commit.manifest] if commit.answer == "" else []
        after = leave_behind(state._replace(faults=state.faults - 1), puts)
        yield "crashes", after, Job(job.name, job.kind, job.life + 1, None)


def _plan(state: State, job: Job, rules: Rules) -> Iterator[Move]:
    newest = state.newest
    if not newest.entries:
        return
    plan = f"{job.name}.{job.life}.{newest.generation + 1}"
    if job.kind == "retain":
        inputs = newest.entries[:1]
        commit = Commit(_without(newest, plan, inputs, rules), "", inputs, ())
        label = f"retention of {_range(inputs)}: issues manifest {newest.generation + 1}"
        yield label, state, job._replace(commit=commit)
        return
    inputs = newest.entries
    output = Output(plan, inputs[0].base, contents(state, inputs))
    merged = Entry(("out", plan), inputs[0].base, inputs[-1].end)
    commit = Commit(_replaced(newest, plan, inputs, merged, rules), "", inputs, (merged.key,))
    label = (
        f"compaction of {_range(inputs)}: writes output, issues manifest {newest.generation + 1}"
    )
    yield label, put_output(state, output), job._replace(commit=commit)


def _after_put(
    label: str, state: State, job: Job, outcome: Commit, rules: Rules, bounds: Bounds
) -> Move:
    done = Job(job.name, job.kind, job.life, None)
    if outcome.answer == "given up":
        return label, state, done._replace(life=job.life + 1)
    if outcome.answer in ("committed", "adopted"):
        return f"{label}; reports success", state, done
    if outcome.answer == "buried":
        return f"{label}; plans anew", state, done
    if outcome.answer != "lost":
        return label, state, job._replace(commit=outcome)
    if state.newest.generation >= bounds.generations:
        return f"{label}; gives up", state, done
    if rules.dropped_before_exists or not outcome.outputs:
        rebased = _rebase(state, job, outcome, rules, "unseen" if outcome.outputs else "")
        return f"{label}; {rebased[0]}", *rebased[1:]
    if not all(exists(state, key) for key in outcome.outputs):
        return f"{label}; outputs are gone: gives up", state, done
    return f"{label}; outputs exist", state, job._replace(commit=outcome._replace(answer="looked"))


def _rebase(state: State, job: Job, lost: Commit, rules: Rules, then: str) -> Move:
    """Rule 7: the newest manifest still lists our inputs and has not dropped our outputs."""
    newest = state.newest
    condemned = {key for key, _ in newest.dropped}
    valid = set(lost.inputs) <= set(newest.entries) and not condemned & set(lost.outputs)
    if rules.loser_revalidates and not valid:
        return "inputs or outputs were dropped: gives up", state, job._replace(commit=None)
    plan = f"{job.name}.{job.life}.{newest.generation + 1}"
    if lost.outputs:
        merged = Entry(lost.outputs[0], lost.inputs[0].base, lost.inputs[-1].end)
        manifest = _replaced(newest, plan, lost.inputs, merged, rules)
    else:
        manifest = _without(newest, plan, lost.inputs, rules)
    if not rules.loser_revalidates:
        then = ""
    label = f"re-applies to {newest.generation}: issues manifest {manifest.generation}"
    commit = Commit(manifest, then, lost.inputs, lost.outputs)
    return label, state, job._replace(commit=commit)


def _look_at_outputs(state: State, job: Job, commit: Commit) -> Move:
    """Rule 7: the job looks outputs up after it read `dropped`, or it could miss a deletion."""
    if all(exists(state, key) for key in commit.outputs):
        return "outputs still exist", state, job._replace(commit=commit._replace(answer=""))
    return "outputs are gone: gives up", state, job._replace(commit=None)


# Rule 8: what a manifest keeps.


def contents(state: State, entries: tuple[Entry, ...]) -> tuple[int, ...]:
    records: tuple[int, ...] = ()
    for entry in entries:
        kind, name = entry.key
        found = segment_at(state, name) if kind == "flush" else output_of(state, name)
        records += found.records if found else ()
    return records


def _replaced(
    newest: Manifest, plan: str, inputs: tuple[Entry, ...], merged: Entry, rules: Rules
) -> Manifest:
    entries = tuple(sorted((*(e for e in newest.entries if e not in inputs), merged), key=_base))
    return _finished(newest, plan, entries, newest.start, inputs, rules)


def _without(newest: Manifest, plan: str, inputs: tuple[Entry, ...], rules: Rules) -> Manifest:
    entries = tuple(e for e in newest.entries if e not in inputs)
    return _finished(newest, plan, entries, max(newest.start, inputs[-1].end), inputs, rules)


def _finished(
    newest: Manifest,
    plan: str,
    entries: tuple[Entry, ...],
    start: int,
    inputs: tuple[Entry, ...],
    rules: Rules,
) -> Manifest:
    dropped = dict(newest.dropped)
    for entry in inputs:
        if entry in newest.entries:
            dropped[entry.key] = newest.generation + 1
    end = newest.end
    if not rules.end_stays:
        end = max((e.end for e in entries), default=0)  # read off what is left
    return commits.successor(
        newest,
        plan,
        start=start,
        end=end,
        entries=entries,
        dropped=tuple(sorted(dropped.items())),
        snapshot=newest.snapshot if rules.snapshot_handed_on else (),
    )


def _base(entry: Entry) -> int:
    return entry.base


def _range(entries: tuple[Entry, ...]) -> str:
    return f"[{entries[0].base}, {entries[-1].end})"
