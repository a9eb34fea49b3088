import asyncio

from structlog.testing import capture_logs

from kafscale.tasks import Tasks


async def fail() -> None:
    raise ValueError("broken")


async def test_a_failure_is_logged_by_name() -> None:
    tasks = Tasks()
    with capture_logs() as logged:
        tasks.spawn(fail(), "the task")
        await tasks.wait_for_one()
    assert [(row["event"], row["task"]) for row in logged] == [("task_failed", "the task")]
    assert len(tasks) == 0


async def test_a_failure_of_an_awaited_task_is_not_logged() -> None:
    tasks = Tasks()
    with capture_logs() as logged:
        task = tasks.spawn(fail(), "the task", awaited=True)
        await tasks.wait_for_one()
    assert logged == []
    assert isinstance(task.exception(), ValueError)


async def test_waiting_for_none_is_over_at_once() -> None:
    await Tasks().wait_for_one()


async def test_giving_up_waiting_leaves_the_task_alone() -> None:
    tasks = Tasks()
    release = asyncio.Event()
    task = tasks.spawn(release.wait(), "wait")
    waiting = asyncio.ensure_future(tasks.wait_for_one())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    release.set()
    assert await task is True


async def test_closing_cancels_what_runs_and_waits_for_its_end() -> None:
    tasks = Tasks()
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    tasks.spawn(work(), "work")
    await asyncio.sleep(0)
    await tasks.aclose()
    assert ended == [1]
    assert len(tasks) == 0
