# ruff: noqa: INP001 - a script
"""A worker with asyncpg: it takes jobs from a table, and tells with the same transaction that each is done.

pip install asyncpg windrow
DATABASE=postgresql://app@localhost/shop python asyncpg_worker.py
"""

import asyncio
import os

import asyncpg

from windrow import AsyncOutbox
from windrow.outbox import json_message

outbox = AsyncOutbox()

TAKE = """
DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, task
"""


async def work(connection: asyncpg.Connection) -> bool:
    """Do one job; False where there is none. A job that fails is there again, and nothing was told."""
    async with connection.transaction():
        job = await connection.fetchrow(TAKE)
        if job is None:
            return False
        done = {"job": job["id"], "result": job["task"].upper()}
        await outbox.write(connection, json_message("jobs.done", done, key=str(job["id"])))
    return True


async def main() -> None:
    connection = await asyncpg.connect(os.environ["DATABASE"])
    try:
        while await work(connection):
            pass
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
