"""What the outbox is, by the catalogue: which layout it has, and whether the settings go with it.

A table of another system is taken over as it is; what windrow needs besides is added (`database/additions.py`).

Invariant: settings that do not go with the layout are refused before anything is changed.
"""

from collections.abc import Mapping
from typing import Final

from windrow.database import layouts, mysql_layouts
from windrow.database.additions import Index, Table
from windrow.database.connections import Connection
from windrow.database.custom import custom, misfits
from windrow.database.layouts import Layout
from windrow.database.tables import Tables, names
from windrow.errors import OutboxTableMissing, SettingsInvalid
from windrow.settings import Settings
from windrow.table import unquoted

_FAMILIES: Final = {"postgresql": layouts.FAMILY, "mysql": mysql_layouts.FAMILY}


def table_of(connection: Connection, tables: Tables) -> Table:
    """The outbox as it is; without columns where it is not there."""
    columns, indexes = (
        connection.execute(tables.query("layout", each), names(tables.outbox)).fetchall()
        for each in ("columns", "indexes")
    )
    return Table(
        {str(column): str(kind) for column, kind in columns},
        frozenset(Index(column, where.replace('"', "")) for column, where in indexes),
    )


def layout_of(connection: Connection, settings: Settings, capture: str) -> Layout:
    """The outbox's layout, once it is seen to be one and to have all that this capture needs."""
    tables = Tables.of(settings)
    table = table_of(connection, tables)
    layout = fit(table.columns, settings)
    refuse_unfit(layout, settings, capture)
    if lacking := [each for each in (layout.found_by(capture), *layout.added) if unquoted(each) not in table.columns]:
        raise OutboxTableMissing(
            f"outboxTable {tables.outbox.as_string()}, a table of {layout.name} layout, lacks {', '.join(lacking)}, by"
            f' which capture: {capture} finds rows: run "windrow init"; or give the capture that it was made for'
        )
    return layout


def fit(columns: Mapping[str, str], settings: Settings) -> Layout:
    """The layout of a table that is there, or an error that names what it lacks."""
    outbox = Tables.of(settings).outbox.as_string()
    if settings.layout == "custom":
        if wrong := [*misfits(settings.columns, columns, settings.dialect)]:
            raise OutboxTableMissing(
                f"outboxTable {outbox} is not as the setting columns says: {'; '.join(wrong)}\n"
                "Correct columns, or change the table."
            )
        return custom(settings.columns, columns, settings.dialect)
    family = _FAMILIES[settings.dialect]
    among = list(family.named) if settings.layout == "auto" else [settings.layout]
    if layout := family.told(columns, among):
        return layout
    lacking = {family.named[each].name: sorted(family.named[each].told_by - columns.keys()) for each in among}
    lists = "; ".join(f"for {name} layout it lacks {', '.join(names)}" for name, names in lacking.items())
    raise OutboxTableMissing(
        f"outboxTable {outbox} is no outbox that windrow can read: {lists}\n"
        'Name another table in outboxTable, and "windrow init" creates it; or give this one the columns; or name its'
        " own with layout: custom."
    )


def adopted(table: Table, settings: Settings) -> Layout:
    """The layout that a table has or, where it is not there, is going to have; settings that do not fit are refused."""
    if not table.columns and settings.layout not in {"auto", "windrow"}:
        raise OutboxTableMissing(
            f"outboxTable {settings.outbox_table} is not there: with layout: {settings.layout} it is made by those who"
            " write to it; name the right one, or leave layout out for a table of windrow's own"
        )
    layout = fit(table.columns, settings) if table.columns else _new(settings)
    refuse_unfit(layout, settings, settings.capture)
    return layout


def awaited(settings: Settings) -> Layout:
    """The layout that a table nobody can look at is going to have, by the settings alone."""
    if settings.layout == "custom":
        named = custom(settings.columns, {}, settings.dialect)
    else:
        named = _FAMILIES[settings.dialect].named.get(settings.layout, _new(settings))
    refuse_unfit(named, settings, settings.capture)
    return named


def own_layout(dialect: str) -> Layout:
    """The layout of windrow's own tables, the dead letters' for instance."""
    return _FAMILIES[dialect].own


def _new(settings: Settings) -> Layout:
    """The layout of a new table of windrow's."""
    family = _FAMILIES[settings.dialect]
    return family.dispatched if settings.capture == "sweep" else family.own


def refuse_unfit(layout: Layout, settings: Settings, capture: str) -> None:
    """Raise where published rows could not be told apart, or are to be kept and cannot."""
    if layout.processed and capture == "snapshot":
        which = f"outbox {settings.outbox_table} is of {layout.name} layout"
        raise SettingsInvalid([f"capture: {which}, where {layout.processed} tells what is published; give mark"])
    if capture == "tail" and (not layout.own or layout.processed):
        which = f"outbox {settings.outbox_table} is of {layout.name} layout, which only a query makes messages of"
        raise SettingsInvalid([f"capture: tail: {which}; give snapshot or mark"])
    if capture == "sweep" and not layout.processed:
        which = f"outbox {settings.outbox_table}, of {layout.name} layout, has no column for when a row was dispatched"
        raise SettingsInvalid([f"capture: sweep: {which}; name a new outboxTable, or give mark"])
    if capture == "mark" and settings.purge.retention and not layout.processed:
        raise SettingsInvalid(
            ["purge.retention: capture: mark deletes rows once they are published; leave it out, or give snapshot"]
        )
