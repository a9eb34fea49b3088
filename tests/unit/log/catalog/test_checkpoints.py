import pytest

from kafscale.log.catalog import checkpoints
from kafscale.log.catalog.checkpoints import KEPT, PartBlocks
from kafscale.log.formats import checkpoint, keys
from kafscale.log.formats.checkpoint import CheckpointHead
from kafscale.model.errors import StoreUnavailable
from kafscale.objects.memory import MemoryObjectStore
from kafscale.testing.clock import SeededDice
from kafscale.testing.faulty_store import Fault, FaultPlan, FaultyObjectStore, Rule

NAMESPACE = "tenant/ns"
DICE = SeededDice(1)


def head(number: int, inline: str = "{}") -> CheckpointHead:
    return CheckpointHead(
        number=number,
        created_ms=number,
        author="me",
        cluster_id="c",
        groups=0,
        offsets=0,
        rows=[checkpoint.row("/inline", inline.encode())],
    )


def part(*rows: str) -> PartBlocks:
    made = PartBlocks()
    for row in rows:
        made.add(checkpoint.encode_rows([checkpoint.row(row, b"{}")]), 1)
    return made


async def written(store: MemoryObjectStore, *numbers: int) -> None:
    for number in numbers:
        parts = [part(f"/a{number}", f"/b{number}"), part(f"/c{number}")]
        assert await checkpoints.write(store, NAMESPACE, head(number), parts, DICE)


async def names(store: MemoryObjectStore) -> list[str]:
    return [row.key.rpartition("/")[2] for row in await store.find(NAMESPACE)]


async def usable(store: MemoryObjectStore) -> tuple[int, list[str]]:
    found = await checkpoints.newest(store, NAMESPACE)
    assert found.checkpoint is not None
    assert [key for key, _ in found.checkpoint.rows] == [
        *(f"/{letter}{found.checkpoint.head.number}" for letter in "abc"),
        "/inline",
    ]
    return found.checkpoint.head.number, found.problems


async def break_object(store: MemoryObjectStore, key: str, body: bytes) -> None:
    await store.delete([key])
    await store.put_new(key, [body])


async def test_the_newest_is_read_with_all_its_parts() -> None:
    store = MemoryObjectStore()
    await written(store, 1, 2, 12)
    assert await usable(store) == (12, [])
    assert [number for number, _ in await checkpoints.heads(store, NAMESPACE)] == [1, 2, 12]


async def test_without_any_there_is_none() -> None:
    assert await checkpoints.newest(MemoryObjectStore(), NAMESPACE) == (None, [])


@pytest.mark.parametrize("what", ["head", "part"])
@pytest.mark.parametrize("how", ["cut", "missing", "other"])
async def test_a_broken_one_is_passed_over_for_the_one_before(what: str, how: str) -> None:
    store = MemoryObjectStore()
    await written(store, 1, 2)
    key = keys.checkpoint(NAMESPACE, 2)
    if what == "part":
        key = [row.key for row in await store.find(NAMESPACE) if row.key.endswith("-1")][-1]
    if how == "cut":
        await break_object(store, key, bytes(await store.read(key))[:-3])
    elif how == "other":
        await break_object(store, key, checkpoint.encode_head(head(3)))
    else:
        await store.delete([key])
    number, problems = await usable(store)
    assert number == 1
    # Without its head the second checkpoint does not exist, so it is no problem.
    assert len(problems) == (0 if (what, how) == ("head", "missing") else 1)
    assert all("checkpoint 2 cannot be used" in problem for problem in problems)


async def test_when_none_is_whole_each_is_named() -> None:
    store = MemoryObjectStore()
    for number in (1, 2):
        await store.put_new(keys.checkpoint(NAMESPACE, number), [b"nonsense"])
    found = await checkpoints.newest(store, NAMESPACE)
    assert found.checkpoint is None
    assert len(found.problems) == 2


async def test_a_store_that_does_not_answer_is_no_broken_checkpoint() -> None:
    objects = MemoryObjectStore()
    await written(objects, 1, 2)
    plan = FaultPlan()
    plan.add(Rule(Fault.FAIL_BEFORE, "read", "*/00000000000000000002", times=1))
    with pytest.raises(StoreUnavailable):
        await checkpoints.newest(FaultyObjectStore(objects, plan), NAMESPACE)


async def test_a_number_is_given_once() -> None:
    store = MemoryObjectStore()
    assert await checkpoints.write(store, NAMESPACE, head(1), [], DICE)
    assert not await checkpoints.write(store, NAMESPACE, head(1, inline="[]"), [], DICE)
    # The store may have carried out our own request twice.
    assert await checkpoints.write(store, NAMESPACE, head(1), [], DICE)


@pytest.mark.parametrize("die_at", range(3))
async def test_one_that_was_cut_short_does_not_count(die_at: int) -> None:
    objects, plan = MemoryObjectStore(), FaultPlan()
    await written(objects, 1)
    plan.add(Rule(Fault.FAIL_BEFORE, "put_new", skip=die_at))
    with pytest.raises(StoreUnavailable):
        await checkpoints.write(
            FaultyObjectStore(objects, plan), NAMESPACE, head(2), [part("/a"), part("/b")], DICE
        )
    assert await usable(objects) == (1, [])
    assert len(await names(objects)) == 3 + die_at


async def test_the_last_few_stay_and_nothing_of_the_others() -> None:
    store = MemoryObjectStore()
    await written(store, *range(1, KEPT + 1))
    assert await checkpoints.delete_old(store, NAMESPACE) == 0
    orphan = f"{keys.checkpoint_folder(NAMESPACE)}/{keys.checkpoint_part(2, b'abcd', 0)}"
    await store.put_new(orphan, [b"x"])
    await store.put_new(f"{NAMESPACE}/@checkpoints/notes.txt", [b"a user's own"])
    await written(store, KEPT + 1, KEPT + 2)
    assert await checkpoints.delete_old(store, NAMESPACE) == 2 * 3 + 1
    left = await names(store)
    assert len(left) == 3 * KEPT + 1
    assert "notes.txt" in left
    assert await usable(store) == (KEPT + 2, [])


def test_names_are_read_back() -> None:
    assert keys.parse_checkpoint(keys.checkpoint("a/b", 12)) == (12, True)
    assert keys.parse_checkpoint(keys.checkpoint_part(12, b"\0\1\2\3", 4)) == (12, False)
    assert keys.parse_checkpoint("a/@checkpoints/notes.txt") is None


async def test_the_first_rows_are_read_without_the_rest() -> None:
    store = MemoryObjectStore()
    assert await checkpoints.first_rows(store, NAMESPACE) == []
    assert await checkpoints.write(store, NAMESPACE, head(1), [], DICE)
    assert [key for key, _ in await checkpoints.first_rows(store, NAMESPACE)] == ["/inline"]
    await written(store, 2, 3)
    assert [key for key, _ in await checkpoints.first_rows(store, NAMESPACE)] == ["/a3", "/b3"]
    await break_object(store, keys.checkpoint(NAMESPACE, 3), b"broken")
    assert [key for key, _ in await checkpoints.first_rows(store, NAMESPACE)] == ["/a2", "/b2"]
