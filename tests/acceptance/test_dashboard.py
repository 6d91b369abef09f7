"""The dashboard in a browser: it loads, follows what happens, does what its buttons say, and outlives its server."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from fix_command import relay_config, windrow_running
from fix_pipeline import Pipeline, limit_message_size, wait_for
from windrow.dashboard.actions import Actions
from windrow.dashboard.chronicle import Chronicle
from windrow.dashboard.guard import Guard
from windrow.dashboard.routes import Dashboard
from windrow.embedded.ports import accepts, free_port
from windrow.kafka.clients import client_config, create_topic
from windrow.observe.server import Server
from windrow.parse import Address
from windrow.publish.dead_letter import DeadLetters
from windrow.queue.consumer import QueueConsumer
from windrow.queue.overview import overview
from windrow.queue.producer import QueueProducer
from windrow.queue.settings import QueueSettings
from windrow.queue.topics import create_topics
from windrow.relay.setup import prepare
from windrow.relay.watch import Watch

pytestmark = pytest.mark.timeout(180)
TOKEN = "a-token-for-the-tests"  # noqa: S105 - its own
PICTURES = os.environ.get("WINDROW_PICTURES")
"""A folder for the pictures that the README shows; they take a minute of traffic, so they are made when asked for."""


@contextmanager
def served(pipeline: Pipeline, queues: QueueSettings, token: str | None = TOKEN) -> Iterator[str]:
    """The dashboard's address."""
    with Watch(pipeline.settings) as watch, Chronicle(watch, queues) as chronicle:
        dashboard = Dashboard(chronicle, Guard(token), Actions(pipeline.settings, queues))
        with Server(Address("127.0.0.1", 0), dashboard.routes()) as server:
            yield f"http://{server.address}"


@pytest.fixture
def queues(pipeline: Pipeline) -> QueueSettings:
    made = QueueSettings.beside(pipeline.settings.base_kafka_config, f"queue_{uuid4().hex[:8]}")
    create_topics(made, partitions=2, marker_partitions=2)
    return made


def bury(settings: QueueSettings, queue: str, payload: str, reason: str) -> None:
    """A letter as the tracker writes it."""
    producer = Producer(client_config(settings))
    headers = {"x-attempt": "5", "x-dead-letter-reason": reason}
    producer.produce(settings.dead_letter_topic, payload, queue, headers=headers)
    assert producer.flush(10) == 0


def unlock(page: Page) -> None:
    page.get_by_role("button", name="Unlock").click()
    page.get_by_label("Token").fill(TOKEN)
    page.locator("#token-ok").click()
    expect(page.locator("#unlock")).to_have_text("Lock")


def test_page_follows_the_relay(make_pipeline: Callable[..., Pipeline], queues: QueueSettings, page: Page) -> None:
    pipeline = make_pipeline(shards=2)
    with served(pipeline, queues) as address:
        page.goto(address)
        expect(page.locator("#link")).to_have_text("live")
        expect(page.locator("#leader")).to_have_text("nobody")
        pipeline.write(*(pipeline.message("waits", key=f"{number}") for number in range(30)))
        expect(page.locator("#backlog")).to_have_text("30")
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, 30)
            expect(page.locator("#published")).to_have_text("30 since it exists")
            expect(page.locator("#backlog")).to_have_text("0")
            expect(page.locator("#leader")).to_have_text(re.compile("[0-9a-f]{8}"))
            expect(page.locator("#latency")).to_have_text(re.compile("s$"))
            expect(page.locator("#events-list")).to_contain_text("a new leader")
        expect(page.locator("#leader")).to_have_text("nobody")


def test_page_outlives_the_relay_that_served_it(pipeline: Pipeline, page: Page, tmp_path: Path) -> None:
    settings, mark, port = pipeline.settings, uuid4().hex, free_port()
    config = relay_config(tmp_path, settings)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    given = ("--config", config, "--token-file", token)
    serving = expect(page.locator("#link"))
    with windrow_running("relay", *given, "--dashboard", "--metrics-address", str(port), mark=mark) as relay:
        wait_for(lambda: accepts(port), "the relay to serve the page")
        page.goto(f"http://127.0.0.1:{port}")
        serving.to_have_text("live")
        unlock(page)
        relay.send_signal(signal.SIGTERM)
        _, talk = relay.communicate(timeout=60)
        assert TOKEN not in talk
    serving.to_have_text("not reachable")
    pipeline.write(pipeline.message("later"))
    with windrow_running("dashboard", *given, "--address", str(port), mark=mark) as alone:
        serving.to_have_text("live")
        expect(page.locator("#backlog")).to_have_text("1")
        expect(page.locator("#unlock")).to_have_text("Lock")
        alone.send_signal(signal.SIGTERM)
        _, talk = alone.communicate(timeout=30)
    assert (alone.returncode, "closing the dashboard" in talk) == (0, True)


def test_dead_letters_are_looked_at_retried_and_discarded(
    pipeline: Pipeline, queues: QueueSettings, page: Page
) -> None:
    limit_message_size(pipeline, 1000)
    large = '{"order": "' + "x" * 3000 + '"}'
    pipeline.write(*(pipeline.message(large, key=f"customer-{number}") for number in range(3)))
    with pipeline.relay():
        wait_for(lambda: len(DeadLetters(pipeline.settings).list(9)) == 3, "the dead letters")
    with served(pipeline, queues) as address:
        page.goto(address)
        rows = page.locator("#letters-table tbody tr")
        expect(rows).to_have_count(3)
        assert "customer" not in page.content()
        page.get_by_role("button", name=re.compile("^Look")).first.click()
        page.get_by_label("Token").fill("not the token")
        page.keyboard.press("Enter")
        expect(page.locator("#token-problem")).to_have_text("That is not the token.")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#letter-content")).to_contain_text('"order": "xxx')
        expect(page.locator("#letter-facts")).to_contain_text("customer-0")
        page.locator("#letter-retry").click()
        expect(page.locator("#toast")).to_contain_text("1 dead letter released")
        expect(rows.first).to_contain_text("released")
        rows.nth(1).get_by_role("button", name="Discard").click()
        page.locator("#sure-ok").click()
        expect(rows).to_have_count(2)
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert [each.release for each in DeadLetters(pipeline.settings).list(9)] == [1, None]


def test_queues_are_paused_resumed_and_replayed(pipeline: Pipeline, queues: QueueSettings, page: Page) -> None:
    with QueueProducer(queues) as producer:
        for number in range(3):
            producer.send("emails", f"{number}")
    bury(queues, "emails", '{"to": "ada"}', "the handler failed 5 times")
    with served(pipeline, queues) as address:
        page.goto(address)
        unlock(page)
        row = page.locator("#queues-table tbody tr")
        expect(row).to_contain_text("nobody consumes")
        row.get_by_role("button", name="Pause").click()
        expect(row).to_contain_text("paused")
        assert overview(queues, ["emails"])[0].paused
        row.get_by_role("button", name="Resume").click()
        expect(row).not_to_contain_text("paused")
        row.get_by_role("button", name="Dead letters").click()
        expect(page.locator("#queue-letters")).to_contain_text('"to": "ada"')
        page.locator("#queue-replay").click()
        expect(row.locator("td").nth(2)).to_have_text("4")
        expect(page.locator("#events-list")).to_contain_text("by hand: 1 dead letter back in queue emails")


def test_hundreds_of_rows_are_drawn_a_page_at_a_time_and_used_by_keyboard_on_a_phone(
    make_pipeline: Callable[..., Pipeline], queues: QueueSettings, page: Page
) -> None:
    pipeline = make_pipeline(shards=300)
    page.set_viewport_size({"width": 360, "height": 740})
    with served(pipeline, queues, token=None) as address:
        page.goto(address)
        rows = page.locator("#shards-table tbody tr")
        expect(rows).to_have_count(20)
        expect(page.locator("#shards-table .where")).to_have_text(re.compile("1.20 of 300"))
        page.keyboard.press("/")
        page.keyboard.type("299")
        expect(rows).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.get_by_role("button", name="Unlock").count() == 0
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.get_by_role("button", name="Switch between dark and light").press("Enter")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.timeout(600)
@pytest.mark.skipif(not PICTURES, reason="pictures are made when WINDROW_PICTURES names their folder")
def test_pictures(pipeline: Pipeline, queues: QueueSettings, page: Page) -> None:
    settings = replace(pipeline.settings, name="shop", shards=2, leader_topic="", position_topic="", leader_group_id="")
    prepare(settings, "plain")
    create_topic(settings, "orders", 2)
    pipeline, over = Pipeline(settings, "orders", pipeline.spark), threading.Event()
    limit_message_size(pipeline, 20_000)
    folder = Path(PICTURES or "")

    def load() -> None:
        turn = 0
        while not over.wait(0.05):
            turn += 1
            many = 40 + 30 * (turn % 200 > 120) + turn % 17
            pipeline.write(*(pipeline.message('{"amount": 120}', key=f"customer-{each}") for each in range(many)))
            if turn in {5, 60, 120}:
                pipeline.write(pipeline.message("x" * 50_000, key=f"customer-{turn}"))

    with ExitStack() as stack, QueueProducer(queues) as producer:
        for queue, many in {"emails": 12, "invoices": 7, "thumbnails": 1280, "webhooks": 46, "reports": 3}.items():
            for each in range(many):
                producer.send(queue, f'{{"number": {each}}}')
        bury(queues, "webhooks", '{"url": "/hooks/orders"}', "the handler failed 5 times")
        for queue, many in {"emails": 9, "invoices": 5, "thumbnails": 64, "webhooks": 4}.items():
            consumer = QueueConsumer(queues, queue)
            stack.callback(consumer.close, timedelta())
            for _ in range(many):
                assert consumer.receive(20)
        relay = stack.enter_context(pipeline.relay())
        stack.enter_context(pipeline.relay())
        pipeline.write(pipeline.message("first"))
        pipeline.wait_published(relay, 1)
        writer = threading.Thread(target=load)
        writer.start()
        stack.callback(writer.join)
        stack.callback(over.set)
        pipeline.wait_published(relay, 5_000, 120)
        address = stack.enter_context(served(pipeline, queues))
        page.goto(address)
        unlock(page)
        page.locator("[data-span='120']").click()
        page.wait_for_timeout(10_000)
        page.get_by_role("row", name=re.compile("reports")).get_by_role("button", name="Pause").click()
        page.wait_for_timeout(70_000)
        page.set_viewport_size({"width": 1280, "height": 1000})
        for theme in ("dark", "light"):
            if page.evaluate("document.documentElement.dataset.theme") != theme:
                page.keyboard.press("t")
            page.wait_for_timeout(2_000)
            page.evaluate("window.scrollTo(0, 0); document.activeElement.blur()")
            page.mouse.move(0, 0)
            page.screenshot(path=folder / f"dashboard-{theme}.png", full_page=True)
        page.set_viewport_size({"width": 360, "height": 740})
        page.wait_for_timeout(1_500)
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=folder / "dashboard-phone.png", full_page=True)
