"""The condition "one of these", made once for each column.

Each time ``in_`` is given values, SQLAlchemy keeps them in a parameter that refers to itself: so many values wait in
memory for a search for cycles, which in the hub is rare. Made once, the condition takes its values when it is executed.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import Column, ColumnElement, bindparam, tuple_

_NAME = "these"


@cache
def one_of_these(*columns: Column[Any]) -> ColumnElement[bool]:
    """Whether a column's value, or those of several together, are among `these`; one such condition in a statement."""
    key: ColumnElement[Any] = tuple_(*columns) if len(columns) > 1 else columns[0]
    return key.in_(bindparam(_NAME, expanding=True))


def these(values: Iterable[Any]) -> dict[str, list[Any]]:
    """The parameters that go with `one_of_these`; of several columns, a tuple each."""
    return {_NAME: list(values)}
