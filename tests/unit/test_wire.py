"""Kafka's protocol as the relay speaks it: values, partitions, record batches, and what is made of odd answers."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.columns import Columns, keys_of, times_of
from windrow.embedded.certificates import write_certificates
from windrow.errors import EnvironmentUnfit, Interrupted
from windrow.publish.direct import member_of, not_understood
from windrow.record import Record
from windrow.wire import batches, messages
from windrow.wire.batches import Batch, Encoder, Malformed
from windrow.wire.cluster import Cluster, addresses
from windrow.wire.codec import Reader, array, signed, text, unsigned
from windrow.wire.connection import Connection
from windrow.wire.messages import Place, Producer
from windrow.wire.partitions import murmur2, murmur2_of_all
from windrow.wire.security import Security

OPTIONAL = st.none() | st.binary(max_size=40)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
HEADERS = st.lists(st.tuples(NAMES, OPTIONAL), max_size=3)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    made = []
    for number in range(draw(st.integers(1, 30))):
        headers = draw(HEADERS)
        made.append(
            Record(
                number - 3,
                draw(st.sampled_from(["orders", "bills"])),
                draw(st.binary(max_size=40)),
                draw(OPTIONAL),
                [name for name, _ in headers],
                [content for _, content in headers],
                draw(st.none() | st.integers(0, 2)),
                draw(st.none() | st.integers(1, 2**41)),
            )
        )
    return made


def encoded(encoder: Encoder, made: list[Record], in_columns: int) -> list[tuple[Place, int, int, int, bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_IN_COLUMNS", in_columns)
        patch.setattr(batches.time, "time_ns", lambda: 1_700_000_000_000_000_000)
        found = encoder.encode(made, lambda _: 3)
    return [(each.place, each.count, each.earliest, each.latest, bytes(each.records)) for each in found]


@given(records(), st.sampled_from([150, 1_000_000]))
def test_columns_and_single_records_become_the_same_bytes(made: list[Record], size: int) -> None:
    encoder = Encoder(b"here", size)
    singly, together = encoded(encoder, made, 1_000), encoded(encoder, made, 0)
    for place in {each[0] for each in singly} | {each[0] for each in together}:
        assert [each for each in together if each[0] == place] == [each for each in singly if each[0] == place]


@given(st.lists(st.binary(max_size=50)), st.integers(0, 3))
def test_keys_have_the_same_hash_one_by_one_and_together(keys: list[bytes], left_out: int) -> None:
    column = pa.array(keys, pa.binary()).slice(left_out)
    assert murmur2_of_all(column).tolist() == [murmur2(key) for key in keys[left_out:]]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_have_the_hash_that_jvm_producers_give_them(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0x7FFFFFFF


@given(st.integers(-(2**40), 2**40))
def test_numbers_are_as_short_as_they_can_be(number: int) -> None:
    folded = number * 2 if number >= 0 else -number * 2 - 1
    assert Reader(signed(number)).unsigned() == folded
    assert len(unsigned(folded)) == max(1, -(-folded.bit_length() // 7))


def test_large_values_are_batches_of_their_own() -> None:
    made = [Record(number, "t", b"k", bytes(40_000), [], [], None, None) for number in range(200)]
    found = Encoder(b"here", 100_000).encode(made, lambda _: 1)
    assert [each.count for each in found] == [2] * 100
    single = Encoder(b"here", 10).encode(made, lambda _: 1)
    assert [each.count for each in single] == [1] * 200


def test_batch_says_whose_it_is_and_what_comes_before_it() -> None:
    head, _ = Batch(Place("t", 0), 2, 5, 6, b"records").stamped(Producer(7, 8), 9, "zstd")
    _, length, _, magic, _, attributes, last, *rest = struct.unpack(">qiibIhiqqqhii", head)
    assert (length, magic, attributes, last, rest) == (49 + 7, 2, 0x14, 1, [5, 6, 7, 8, 9, 2])


GOOD = Record(1, "t", b"k", b"v", [], [], None, None)


@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (GOOD._replace(topic=""), "there is no topic"),
        (GOOD._replace(header_keys=["a"]), "topic t: 1 header keys and 0 header values"),
        (GOOD._replace(partition=-1), "topic t: partition -1 is less than 0"),
        (GOOD._replace(partition=3), "topic t: there is no partition 3, it has 3"),
    ],
)
def test_row_that_is_no_message_is_named(bad: Record, reason: str, count: int) -> None:
    with pytest.raises(Malformed, match=reason):
        Encoder(b"here", 1_000_000).encode([GOOD] * (count - 1) + [bad], lambda _: 3)


@pytest.mark.parametrize("count", [20, 2_000])
def test_messages_without_a_key_go_anywhere(count: int) -> None:
    made = [GOOD._replace(key=None)] * count
    found = Encoder(b"here", 1_000_000).encode(made, lambda _: 3)
    assert {each.place.partition for each in found} == {0, 1, 2}
    assert sum(each.count for each in found) == count


def test_columns_are_records_to_those_who_look() -> None:
    made = [GOOD, GOOD._replace(id=2, key=None, written_at=5)]
    columns = Columns.of(made)
    assert (len(columns), columns[-1], [*columns], columns[1:]) == (2, made[1], made, made[1:])
    assert keys_of(columns) == keys_of(made) == {b"k", None}
    assert times_of(columns) == times_of(made) == [None, 5]
    assert Columns.of(columns) is columns


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" kafka , [::1]:9093", [("kafka", 9092), ("::1", 9093)]),
        ("SASL_SSL://a.b:1", [("a.b", 1)]),
        ("[::1]", [("::1", 9092)]),
        (",", []),
    ],
)
def test_bootstrap_servers_are_hosts_and_ports(servers: str, found: list[tuple[str, int]]) -> None:
    assert addresses(servers) == found


def test_settings_that_librdkafka_alone_knows_are_left_to_it() -> None:
    known = {
        "bootstrap.servers": "a",
        "compression.type": "zstd",
        "linger.ms": "5",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "scram-sha-512",
        "sasl.password": "x",
    }
    assert not_understood(known) == []
    foreign = {
        "sasl.mechanism": "OAUTHBEARER",
        "compression.type": "lz4",
        "partitioner": "consistent",
        "queue.buffering.max.kbytes": "1000",
    }
    assert not_understood({**known, **foreign}) == [
        "compression.type",
        "sasl.mechanism",
        "partitioner",
        "queue.buffering.max.kbytes",
    ]


def test_kerberos_is_left_to_librdkafka() -> None:
    assert not_understood({"security.protocol": "sasl_ssl", "sasl.username": "ada"}) == ["security.protocol"]


def test_what_is_trusted_may_be_a_file_a_folder_or_whatever_the_system_has(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    for place in (tmp_path / "authority.pem", tmp_path, "probe", ""):
        assert Security.of({"security.protocol": "ssl", "ssl.ca.location": str(place)}).tls
    with pytest.raises(EnvironmentUnfit, match=r"check ssl\.ca\.location, on every executor"):
        Security.of({"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "nothing")})


def test_broker_that_takes_its_time_over_tls_may_do_so_for_each_part(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificates(tmp_path))
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    body, taken = bytes(16_000_000), 0

    def serve() -> None:
        nonlocal taken
        with listener, context.wrap_socket(listener.accept()[0], server_side=True) as client:
            client.recv(65_536)
            answer = struct.pack(">i", 1) + versions(13, 2)
            client.sendall(struct.pack(">i", len(answer)) + answer)
            while content := client.recv(65_536):
                taken += len(content)
                time.sleep(0.001)

    thread = threading.Thread(target=serve)
    thread.start()
    security = Security.of({"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "authority.pem")})
    with closing(Connection("127.0.0.1", listener.getsockname()[1], security, 0.5)) as connection:
        connection.send(messages.PRODUCE, body)
    thread.join(30)
    assert taken > len(body)


def test_membership_is_read_as_librdkafka_writes_it() -> None:
    assert member_of(b"CGMDv2:\x05\0\0\0group\0member\0\x01") == ("group", 5, "member", None)
    assert member_of(b"CGMDv2:\xff\xff\xff\xffgroup\0\0\0host\0") == ("group", -1, "", "host")
    with pytest.raises(Interrupted):
        member_of(b"CGMDv9:something else")


def versions(highest: int, level: int) -> bytes:
    """A broker's answer to the question what it speaks."""
    known = array(struct.pack(">hhh", api.key, 0, highest) + b"\0" for api in messages.NEEDED)
    features = array([text("transaction.version") + struct.pack(">hh", level, 0) + b"\0"])
    return struct.pack(">h", 0) + known + struct.pack(">i", 0) + b"\x01\x02" + unsigned(len(features)) + features


@pytest.mark.parametrize(("highest", "level", "enough"), [(13, 2, True), (13, 1, False), (11, 2, False)])
def test_brokers_of_an_older_kind_are_known_by_what_they_speak(highest: int, level: int, *, enough: bool) -> None:
    assert messages.has_all(Reader(versions(highest, level))) is enough


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """The address of something that answers so, whatever it is asked, and then closes."""

    def serve() -> None:
        with listener, listener.accept()[0] as client:
            for answer in answers:
                client.recv(65_536)
                client.sendall(answer)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(10)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x06" + b"\0\0\0\x09\0\0",
        b"\0\0\0\x05" + b"\0\0\0\x01\0",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\0\0\0\x0b" + b"\0\0\0\x01\0\0" + b"\xff\xff\xff\xff\x7f",
    ],
)
def test_what_is_no_answer_of_a_broker_is_an_interruption(answer: bytes) -> None:
    with answering(answer) as address, pytest.raises(Interrupted, match="Kafka broke off: broker 127"):
        Cluster({"bootstrap.servers": address}, 2.0, 60.0)


@given(st.binary(max_size=60))
def test_no_bytes_make_an_answer_that_hangs_or_crashes(content: bytes) -> None:
    for read in (messages.has_all, messages.described, messages.coordinator, messages.producer, messages.refused):
        try:
            read(Reader(content))
        except (struct.error, ValueError, IndexError):
            continue


def test_broker_that_is_silent_is_an_interruption_in_time() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
        pytest.raises(Interrupted, match="no answer in time"),
    ):
        Cluster({"bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}"}, 0.2, 60.0)
