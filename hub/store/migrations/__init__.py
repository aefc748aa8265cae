"""Alembic's migrations of the store, loaded only by it."""
