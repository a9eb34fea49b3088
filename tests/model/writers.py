"""What a broker does that takes itself for the owner: open, flush, check, roll up, crash.

In this room: one function per step; a step is at most one request at the store, and between any
two steps the writer may pause for any time.
Next door: foreign jobs (jobs.py), the two ends of a manifest PUT (commits.py).

Merged into one step, because nothing can tell the difference: LISTs, GET and walk of an opener
under rule 1 (the second LIST finds the same newest manifest, and generations only grow, so it was
the newest all the while); a LIST and the reading of its answer, the proof being dated by the LIST;
the decision to flush and the execution of its PUT (a writer that waits for a slow PUT is like one
that paused before it; a PUT that outlives its sender's patience is a fault, and modelled).
"""

from collections.abc import Iterator

from tests.model import commits
from tests.model.state import (
    Bounds,
    Commit,
    Entry,
    Flush,
    Got,
    Key,
    Manifest,
    Output,
    Rules,
    Segment,
    State,
    View,
    Writer,
    exists,
    leave_behind,
    manifest_at,
    output_of,
    put_output,
    put_segment,
    segment_at,
)

Step = tuple[str, State]


def steps(state: State, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    for n, writer in enumerate(state.writers):
        for label, after, memory in _steps_of(state, writer, rules, bounds):
            writers = (*state.writers[:n], memory, *state.writers[n + 1 :])
            yield f"{writer.name}: {label}", after._replace(writers=writers)


Move = tuple[str, State, Writer]


def _steps_of(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    if writer.stage != "ready":
        yield from _open(state, writer, rules, bounds)
    elif writer.name == "R":
        yield from _check_while_idle(state, writer, rules)
    elif writer.name == "T":
        yield from _job_that_rolls_up(state, writer, rules, bounds)
    else:
        if writer.flush is None:
            yield from _issue_flush(state, writer, rules, bounds)
        else:
            yield from _flush(state, writer, rules, bounds)
        if writer.roll_up is None:
            yield from _plan_roll_up(state, writer, rules, bounds)
        else:
            yield from _roll_up(state, writer, rules)
        if bounds.reads:
            yield from _read_past(state, writer, rules, bounds)
        if bounds.periodic_checks and writer.flush is None and writer.roll_up is None:
            yield from _check_while_idle(state, writer, rules)
    if bounds.crashes and state.faults and writer.stage != "down":
        yield "crashes", *_forget(state._replace(faults=state.faults - 1), writer, crash=True)


# Rule 1: opening.


def walk(state: State, manifest: Manifest, rules: Rules) -> tuple[tuple[Segment, ...], bool]:
    """The chain after a manifest, and whether rule 5 stopped the walk."""
    tail: tuple[Segment, ...] = ()
    end, last_id = manifest.end, manifest.last_id
    while (segment := segment_at(state, end)) is not None:
        if rules.predecessor_id and segment.previous != last_id:
            return tail, True
        tail += (segment,)
        end, last_id = segment.end, segment.id
    return tail, False


def _open(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    if rules.opening != "twice" and writer.stage in ("down", "named", "reading"):
        yield from _open_by_one_list(state, writer, rules, bounds)
    elif writer.stage == "down" and not rules.open_lists_twice:
        newest = state.newest
        tail, _ = walk(state, newest, rules)
        mark = (newest.generation, View(newest, tail).end)
        label = f"opens: lists the manifests, newest is {newest.generation}"
        yield label, state, writer._replace(stage="listed", listed=mark)
    elif writer.stage == "down":
        tail, stopped = walk(state, state.newest, rules)
        if not stopped:
            view = View(state.newest, tail)
            label = f"opens: reads manifest {state.newest.generation}, walks to {view.end}"
            yield label, state, writer._replace(stage="walked", view=view, proof=0)
    elif writer.stage == "listed":
        manifest = manifest_at(state, writer.listed[0])
        if manifest is None:
            yield "opens: the listed manifest is gone", state, writer._replace(stage="down")
            return
        view = View(manifest, walk(state, manifest, rules)[0])
        label = f"opens: reads manifest {manifest.generation}, walks to {view.end}: open"
        yield label, state, writer._replace(stage="ready", view=view, proof=0)
    elif writer.stage == "walked":
        assert writer.view is not None
        if state.newest.generation == writer.view.manifest.generation:
            label = f"opens: lists again, newest still {state.newest.generation}: open"
            seen = min(writer.seen, 0)
            yield label, state, writer._replace(stage="ready", proof=0, seen=seen)
        else:
            yield "opens: lists again, newest has moved: starts over", *_forget(state, writer)
    elif writer.stage == "answered":  # only without dating: an old answer is taken for fresh
        yield (
            "reads the answer of its check, dates it now",
            state,
            writer._replace(stage="ready", proof=0),
        )


def _open_by_one_list(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """LIST, GET the manifest, GET every segment, each in its own time; then judge the LIST."""
    view = writer.view
    if writer.stage == "down":
        newest = state.newest
        end = View(newest, walk(state, newest, rules)[0]).end
        names = (segment.base for segment in state.segments)
        label = f"opens: lists, newest is {newest.generation}"
        yield (
            label,
            state,
            writer._replace(stage="named", proof=0, listed=(newest.generation, end, *names)),
        )
        return
    if view is None:
        manifest = manifest_at(state, writer.listed[0])
        if manifest is None:
            yield "opens: the listed manifest is gone", *_forget(state, writer)
        else:
            label = f"opens: reads manifest {manifest.generation}"
            yield label, state, writer._replace(stage="reading", view=View(manifest, ()))
        return
    if view.end in writer.listed[2:]:
        segment = segment_at(state, view.end)
        if segment is None:
            yield "opens: a listed segment is gone", *_forget(state, writer)
        elif not rules.predecessor_id or segment.previous == view.last_id:
            label = f"opens: reads segment {segment.base}{list(segment.records)}"
            longer = view._replace(tail=(*view.tail, segment))
            yield label, state, writer._replace(view=longer)
        return
    opened = writer._replace(stage="ready", listed=(0, 0))
    if rules.opening == "any time" or writer.proof <= bounds.fresh_until:
        yield "opens: the LIST is fresh: open", state, opened
    elif state.newest.generation == view.manifest.generation:
        label = f"opens: lists again, newest still {state.newest.generation}: open"
        yield label, state, opened._replace(proof=0, seen=min(writer.seen, 0))
    else:
        yield "opens: lists again, newest has moved: starts over", *_forget(state, writer)


def _forget(state: State, writer: Writer, *, crash: bool = False) -> tuple[State, Writer]:
    """Drop the log from memory: by crash, or to re-open. PUTs in flight stay in flight."""
    abandoned: list[Segment | Manifest] = []
    if writer.flush is not None and writer.flush.answer == "":
        abandoned.append(writer.flush.segment)
    if writer.roll_up is not None and writer.roll_up.answer == "":
        abandoned.append(writer.roll_up.manifest)
    seen = min(writer.seen, 0)
    down = Writer(writer.name, writer.life + crash, "down", None, 0, None, None, (0, 0), seen)
    return leave_behind(state, abandoned), down


# Rules 2, 3, 4: a flush.


def _issue_flush(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Any record a producer still retries; a known one is answered without a flush."""
    view = writer.view
    assert view is not None
    known = view.known
    for record in range(state.born, min(state.used + 1, bounds.records)):
        if record in known:
            continue
        segment = _new_segment(state, writer, (record,))
        flush = Flush(segment, "", 0, 0, writer.proof <= bounds.fresh_until)
        after = state._replace(used=max(state.used, record + 1))
        if rules.age_judged_after_put:
            yield _flush_executes(after, writer, flush, rules)
        else:  # the moment of issue matters
            yield f"issues PUT {_name(segment)}", after, writer._replace(flush=flush)
        if state.faults:
            yield from _flush_times_out(after, writer, flush, rules, bounds)


def _new_segment(state: State, writer: Writer, records: tuple[int, ...]) -> Segment:
    assert writer.view is not None
    base = writer.view.end
    token = f"{writer.name}{writer.life}.{state.recreations}"
    return Segment(base, f"{token}@{base}{list(records)}", records, writer.view.last_id)


def _flush(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    flush = writer.flush
    assert flush is not None
    if flush.answer == "":
        yield _flush_executes(state, writer, flush, rules)
    elif flush.answer == "check":
        yield from _check_after_put(state, writer, flush, rules)
    else:
        label, after, memory = _flush_answered(state, writer, flush, rules, bounds)
        if memory.stage == "ready" or writer.roll_up is None:  # re-opens with nothing in hand
            yield label, after, memory
        if state.faults:
            after = state._replace(faults=state.faults - 1)
            yield from _flush_retried(after, writer, flush, "answer is lost", rules, bounds)


def _flush_executes(state: State, writer: Writer, flush: Flush, rules: Rules) -> Move:
    created = put_segment(state, flush.segment)
    answer = "created" if created is not None else "exists"
    if not rules.exists_dated_by_issue:
        flush = flush._replace(issued=0)  # forgets that these bytes were sent before
    memory = writer._replace(flush=flush._replace(answer=answer, executed=0))
    return f"PUT {_name(flush.segment)} executes: {answer}", created or state, memory


def _flush_times_out(
    state: State, writer: Writer, flush: Flush, rules: Rules, bounds: Bounds
) -> Iterator[Move]:
    after = leave_behind(state._replace(faults=state.faults - 1), [flush.segment])
    yield from _flush_retried(after, writer, flush, "times out and may execute late", rules, bounds)


def _flush_retried(
    state: State, writer: Writer, flush: Flush, why: str, rules: Rules, bounds: Bounds
) -> Iterator[Move]:
    """Rule 2: identical bytes. Without it the retry takes along what arrived meanwhile."""
    again = flush.segment
    if not rules.content_id and state.used < bounds.records:
        again = _new_segment(state, writer, (*again.records, state.used))
        state = state._replace(used=state.used + 1)
    memory = writer._replace(flush=flush._replace(segment=again, answer="", executed=0))
    yield f"PUT {_name(flush.segment)} {why}; retries {_name(again)}", state, memory


def _flush_answered(
    state: State, writer: Writer, flush: Flush, rules: Rules, bounds: Bounds
) -> Move:
    """Rule 2: is it ours? Rule 3: is the proof fresh, now that the answer is in hand?"""
    if flush.answer == "exists":
        there = segment_at(state, flush.segment.base)
        ours = there is not None and (
            there.id == flush.segment.id
            if rules.content_id
            else there.id.startswith(writer.name)  # the writer's id alone
        )
        if not ours:
            return "base is not ours: NOT_LEADER, re-opens", *_forget(state, writer)
    fresh = writer.proof <= bounds.fresh_until
    if not rules.age_judged_after_put:
        fresh = flush.proof_was_fresh
    if rules.proof_of_tail and not fresh:
        memory = writer._replace(flush=flush._replace(answer="check", issued=0, executed=0))
        return "holds the answer, proof is old: check due", state, memory
    # The proof is dated by the execution. For "exists" only the first issue of these bytes is
    # a safe date: others may have built on them before the retry executed.
    date = flush.executed if flush.answer == "created" else flush.issued
    return _commit(state, writer, flush, date)


def _commit(state: State, writer: Writer, flush: Flush, date: int) -> Move:
    """Everything moves at once: tail, high watermark, readers, duplicate detection, answers."""
    assert writer.view is not None
    view = writer.view._replace(tail=(*writer.view.tail, flush.segment))
    label = f"acknowledges {list(flush.segment.records)} at {flush.segment.base}"
    return label, state, writer._replace(view=view, flush=None, proof=min(writer.proof, date))


def _nothing_newer(state: State, view: View, rules: Rules) -> bool:
    """Rule 4: LIST the manifests after ours; never HEAD the next generation."""
    if rules.check_lists:
        return state.newest.generation == view.manifest.generation
    return manifest_at(state, view.manifest.generation + 1) is None


def _check_after_put(state: State, writer: Writer, flush: Flush, rules: Rules) -> Iterator[Move]:
    assert writer.view is not None
    if not _nothing_newer(state, writer.view, rules):
        if writer.roll_up is None:
            yield "checks: newer manifest: NOT_LEADER, re-opens", *_forget(state, writer)
        return
    label, after, memory = _commit(state, writer, flush, 0)
    if not rules.proof_dated_by_store:
        memory = memory._replace(stage="answered")
    yield f"checks: nothing newer; {label}", after, memory


def _check_while_idle(state: State, writer: Writer, rules: Rules) -> Iterator[Move]:
    assert writer.view is not None
    if not _nothing_newer(state, writer.view, rules):
        yield "looks for newer manifests: finds one, re-opens", *_forget(state, writer)
    elif writer.proof or not rules.proof_dated_by_store:
        stage = "ready" if rules.proof_dated_by_store else "answered"
        label = "looks for newer manifests: none"
        yield label, state, writer._replace(stage=stage, proof=0, seen=min(writer.seen, 0))


# Rule 26: a consumer wants what has left the owner's memory.


def _read_past(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """GET an object that the view names, look at the age of the view, show what was read."""
    got, view = writer.got, writer.view
    assert view is not None
    if got is None:
        for entry in view.manifest.entries:
            asked = Got("asked", entry.base, entry.key)
            if rules.read_judged_after_get:
                yield from _get(state, writer, asked)
            elif _may_show(writer, rules, bounds):
                label = f"may read {entry.key} by the age of its view"
                yield label, state, writer._replace(got=asked)
    elif got.stage == "asked":
        yield from _get(state, writer, got)
    elif got.stage == "shown":
        yield "the consumer goes on", state, writer._replace(got=None)
    elif _may_show(writer, rules, bounds) or not rules.read_judged_after_get:
        yield "shows what it read", state, writer._replace(got=got._replace(stage="shown"))
    elif _nothing_newer(state, view, rules):
        label = "looks for newer manifests: none; shows what it read"
        yield label, state, writer._replace(seen=0, got=got._replace(stage="shown"))
    elif writer.flush is None and writer.roll_up is None:
        yield "looks for newer manifests: finds one, re-opens", *_forget(state, writer)


def _get(state: State, writer: Writer, got: Got) -> Iterator[Move]:
    kind, name = got.key
    found = segment_at(state, name) if kind == "flush" else output_of(state, name)
    if found is not None:
        held = got._replace(stage="held", records=found.records)
        yield f"reads {got.key}: {list(found.records)}", state, writer._replace(got=held)
    elif writer.flush is None and writer.roll_up is None:
        yield f"finds {got.key} gone, re-opens", *_forget(state, writer)


def _may_show(writer: Writer, rules: Rules, bounds: Bounds) -> bool:
    age = writer.seen if rules.reads_judged_by_view else writer.proof
    return not rules.reads_judged or age <= bounds.fresh_until


# Rules 6, 8, 12: roll-up by the owner, beside its flushes.


def _plan_roll_up(state: State, writer: Writer, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    view = writer.view
    assert view is not None
    manifest, tail = view.manifest, view.tail
    if manifest.generation >= bounds.generations or writer.name not in f"{bounds.rolling}T":
        return
    if not rules.roll_up_committed_only and writer.flush is not None:
        tail = (*tail, writer.flush.segment)  # an unresolved flush, from memory
    if not tail:
        return
    plan = f"{writer.name}{writer.life}.{manifest.generation + 1}"
    for how in ("adopt",) if writer.name == "T" else bounds.roll_ups:
        adopted = {"merge": (), "adopt": tail, "mixed": tail[:1]}[how]
        merged = tail[len(adopted) :]
        if how == "mixed" and not merged:
            continue
        entries = tuple(Entry(("flush", s.base), s.base, s.end) for s in adopted)
        outputs: tuple[Key, ...] = ()
        after = state
        if merged:
            records = tuple(r for s in merged for r in s.records)
            after = put_output(state, Output(plan, merged[0].base, records))
            outputs = (("out", plan),)
            entries += (Entry(outputs[0], merged[0].base, tail[-1].end),)
        next_manifest = commits.successor(
            manifest,
            plan,
            entries=manifest.entries + entries,
            end=tail[-1].end,
            last_id=tail[-1].id,
            snapshot=manifest.snapshot + tuple(r for s in tail for r in s.records),
        )
        commit = Commit(next_manifest, "", entries, outputs)
        label = f"rolls up ({how}) to {tail[-1].end}: issues manifest {next_manifest.generation}"
        yield label, after, writer._replace(roll_up=commit)


def _job_that_rolls_up(
    state: State, writer: Writer, rules: Rules, bounds: Bounds
) -> Iterator[Move]:
    """An owner that never writes: it opens, makes the tail past as it is, and leaves."""
    assert writer.view is not None
    if writer.roll_up is not None:
        yield from _roll_up(state, writer, rules)
        return
    yield from _plan_roll_up(state, writer, rules, bounds)
    if not writer.view.tail:
        yield "leaves", *_forget(state, writer)


def _roll_up(state: State, writer: Writer, rules: Rules) -> Iterator[Move]:
    commit = writer.roll_up
    assert commit is not None
    for label, after, outcome in commits.steps(state, commit, rules):
        if outcome.answer == "given up":
            bumped = writer._replace(life=writer.life + 1, roll_up=None)
            yield label, after, bumped
        elif outcome.answer == "committed":
            yield label, after, _rolled_up(writer, commit)
        elif outcome.answer == "lost" and (again := _re_applied(after, writer, outcome, rules)):
            yield f"{label}; re-applies its roll-up", after, writer._replace(roll_up=again)
        elif outcome.answer in ("lost", "buried", "adopted"):
            if writer.flush is None:  # rule 12: re-open, once the flush in hand is resolved
                yield f"{label}; re-opens", *_forget(after, writer._replace(roll_up=None))
        else:
            yield label, after, writer._replace(roll_up=outcome)


def _re_applied(state: State, writer: Writer, lost: Commit, rules: Rules) -> Commit | None:
    """Rules 7 and 12: the same entries after a newer manifest with the same end, if it has one."""
    newest = state.newest
    condemned = {key for key, _ in newest.dropped}
    blindly = writer.name == "T" and not rules.roll_up_same_end
    moved = newest.end != lost.inputs[0].base
    if (rules.roll_up_loser != "re-applies" or moved) and not blindly:
        return None
    if not all(key not in condemned and exists(state, key) for key in lost.outputs):
        return None
    rolled = len(lost.manifest.snapshot) - (lost.manifest.end - newest.end)
    manifest = commits.successor(
        newest,
        f"{writer.name}{writer.life}.{newest.generation + 1}",
        entries=newest.entries + lost.inputs,
        end=lost.manifest.end,
        last_id=lost.manifest.last_id,
        snapshot=newest.snapshot + lost.manifest.snapshot[rolled:],
    )
    return Commit(manifest, "", lost.inputs, lost.outputs)


def _rolled_up(writer: Writer, commit: Commit) -> Writer:
    """Our manifest was the newest when listed: that is a proof of the tail, too."""
    assert writer.view is not None
    tail = tuple(s for s in writer.view.tail if s.base >= commit.manifest.end)
    seen = min(writer.seen, 0)
    got = None if writer.got is None or writer.got.stage != "shown" else writer.got
    view = View(commit.manifest, tail)
    return writer._replace(view=view, proof=0, roll_up=None, seen=seen, got=got)


def _name(segment: Segment) -> str:
    return f"segment {segment.base}{list(segment.records)}"
