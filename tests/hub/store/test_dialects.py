"""The schema and the statements that are written by hand hold in every dialect the store is meant for."""

import pytest
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from hub.store import sql_fleet, sql_intake, sql_logs, sql_samples
from hub.store.schema import EVENTS, METADATA

DIALECTS: list[Dialect] = [sqlite.dialect(), postgresql.dialect()]  # type: ignore[no-untyped-call]  # the library's


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_table_can_be_made(dialect: Dialect) -> None:
    for table in METADATA.sorted_tables:
        assert str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=dialect))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_statements_of_the_way_in_can_be_said(dialect: Dialect) -> None:
    statements = (
        sql_intake._SELECT_HEADS,
        sql_intake._MOVE_HEAD,
        sql_samples._MARK_DUE,
        sql_samples._GROW,
        sql_logs._COUNT,
        sql_fleet._HEARD_AND_STATUS,
    )
    for statement in statements:
        assert str(statement.compile(dialect=dialect))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_an_events_row_has_the_columns_of_its_table(dialect: Dialect) -> None:
    assert sql_intake._EventRow._fields == tuple(EVENTS.c.keys())
    statement, positional = sql_intake._event_insert(dialect)
    assert f"({', '.join(EVENTS.c.keys())})" in statement
    assert positional == ("?" in statement)
