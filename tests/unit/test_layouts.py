"""Table layouts: told by their columns, read in windrow's names, and at no cost for windrow's own."""

import pytest
from psycopg.sql import SQL

from windrow.capture.protocol import selected
from windrow.capture.shards import predicate
from windrow.database.adoption import fit
from windrow.database.layouts import GOHARVEST, LAYOUTS, OWN, Layout, told
from windrow.database.postgres import Tables
from windrow.errors import OutboxTableMissing
from windrow.record import Record, Shard


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("more", [set(), {"tx"}, {"tx", "leader_id", "colour"}])
def test_a_layout_is_told_by_its_columns_whatever_else_there_is(layout: Layout, more: set[str]) -> None:
    found = told(dict.fromkeys(layout.told_by | more, "text"))
    assert found
    assert found.name == layout.name


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_table_that_lacks_a_column_has_no_layout_and_the_error_names_it(layout: Layout) -> None:
    for missing in layout.told_by:
        assert told(dict.fromkeys(layout.told_by - {missing}, "text")) is None
        with pytest.raises(OutboxTableMissing, match=rf'"some"\."table" .* {layout.name} layout it lacks {missing}\b'):
            fit(dict.fromkeys(layout.told_by - {missing}, "text"), Tables.beside("some.table"))


def test_the_own_layout_reads_plain_columns() -> None:
    assert ", ".join(selected(OWN)) == (
        "id, topic, key, value, header_keys, header_values, partition,"
        " (extract(epoch FROM timestamp) * 1000)::bigint AS timestamp"
    )
    hashed = "sha256(coalesce(key, convert_to(topic, 'UTF8')))"
    assert predicate(Shard(1, 3)).as_string() == (f"mod((get_byte({hashed}, 0) << 8) | get_byte({hashed}, 1), 3) = 1")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_layout_gives_every_part_of_a_record(layout: Layout) -> None:
    names = [each.rpartition(" ")[2] for each in selected(layout)]
    assert names == list(Record._fields)
    assert set(layout.written) <= layout.told_by
    SQL("{id} {create_time} {size} {written} {content}").format(**layout.fragments())


def test_goharvests_text_becomes_bytes_and_text_again() -> None:
    assert GOHARVEST.columns.key == "convert_to(kafka_key, 'UTF8')"
    assert GOHARVEST.written["kafka_key"] == "convert_from(key, 'UTF8')"
