"""The event loop on a thread of its own: it runs coroutines, and ends when `stop` is called."""

from __future__ import annotations

import asyncio
import threading
import time

from dutiful.runtime.loop_thread import LoopThread


def test_a_coroutine_runs_on_the_thread_and_its_answer_comes_back():
    async def story():
        thread = LoopThread("beside")
        thread.start()

        async def name():
            return threading.current_thread().name

        answer = await thread.run(name())
        await thread.stop()
        return answer, thread.is_running

    assert asyncio.run(story()) == ("beside", False)


def test_a_caller_that_blocks_its_own_loop_does_not_block_the_thread():
    async def story():
        thread, done = LoopThread("beside"), threading.Event()
        thread.start()
        thread.call(done.set)
        # Blocks this loop on purpose.
        reached = done.wait(30)
        await thread.stop()
        return reached

    assert asyncio.run(story())


def test_tasks_still_running_are_cancelled_when_the_thread_is_stopped():
    async def story():
        thread, told = LoopThread("beside"), []
        thread.start()

        async def wait():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told.append("cancelled")
                raise

        running = asyncio.create_task(thread.run(wait()))
        while not running.done() and not told:
            await asyncio.sleep(0)
            if thread.is_running:
                await thread.stop()
        await asyncio.wait([running])
        thread.call(lambda: told.append("never"))
        return told

    began = time.monotonic()
    assert asyncio.run(story()) == ["cancelled"]
    assert time.monotonic() - began < 60
