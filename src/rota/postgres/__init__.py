"""Postgres, and nothing but Postgres: typed functions over .sql files."""
