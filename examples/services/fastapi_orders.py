# ruff: noqa: INP001 - a script, run by uvicorn
"""An order service with FastAPI and SQLAlchemy: an order and its message are one transaction.

    pip install fastapi uvicorn "sqlalchemy[asyncio]" "psycopg[binary]" windrow
    ORDERS_DATABASE=postgresql+psycopg://app@localhost/shop uvicorn fastapi_orders:app

The outbox is made by `windrow init`; `windrow relay` publishes it.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from windrow import AsyncOutbox
from windrow.outbox import json_message

engine = create_async_engine(os.environ["ORDERS_DATABASE"])
sessions = async_sessionmaker(engine)
outbox = AsyncOutbox()


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    total: Mapped[int]


class OrderPlaced(BaseModel):
    """What consumers of the topic `orders` get."""

    order: int
    customer: str
    total: int


class NewOrder(BaseModel):
    customer: str
    total: int


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(new: NewOrder) -> OrderPlaced:
    """Whatever fails in here, neither the order nor its message is there."""
    async with sessions.begin() as session:
        order = Order(customer=new.customer, total=new.total)
        session.add(order)
        await session.flush()  # gives the order its id
        placed = OrderPlaced(order=order.id, customer=order.customer, total=order.total)
        await outbox.write(session, json_message("orders", placed, key=order.customer))
        if new.total <= 0:
            raise HTTPException(422, "an order has to be worth something")
    return placed
