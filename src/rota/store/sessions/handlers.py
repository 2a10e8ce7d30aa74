"""The statements sent before and after users' code in a session."""

from __future__ import annotations

from rota.store.statements import Statement, Statements


def lend(
    statements: Statements, *, name: str, idle: str, level: str | None, is_local: bool, opens: bool
) -> Statement:
    """Before the code, on a session of ours; `opens` begins a transaction. The last column says
    which transaction this is."""
    params = {
        "name": name,
        "idle": idle,
        "level": level,
        "schema": statements.schema,
        "is_local": is_local,
    }
    return statements.get("session/open" if opens else "session/lend"), params


def limit(statements: Statements, *, timeout: str, is_local: bool) -> Statement:
    """How long one statement may take from now on."""
    return statements.get("session/limit_call"), {"timeout": timeout, "is_local": is_local}


def take_back(statements: Statements, *, idle: str) -> Statement:
    """After it: nothing that it set reaches the statements that end the run."""
    return statements.get("session/take_back"), {"idle": idle}


def mark(statements: Statements) -> Statement:
    """The place to go back to, should the end of the run have to be written again."""
    return statements.get("session/mark"), {}


def back_to_mark(statements: Statements) -> Statement:
    return statements.get("session/back_to_mark"), {}


def commit(statements: Statements) -> Statement:
    """And leave the session as a new one is."""
    return statements.get("session/commit"), {}


def rollback(statements: Statements) -> Statement:
    return statements.get("session/rollback"), {}


# On a connection of the user's own.


def join(statements: Statements, *, name: str, idle: str) -> Statement:
    """At the beginning of a transaction. The last column says which one it is."""
    return statements.get("session/join"), {"name": name, "idle": idle}


def whose(statements: Statements) -> Statement:
    """The transaction, the database, whether the role may end runs there, the role, and whether
    what others commit meanwhile conflicts."""
    return statements.get("session/whose"), {"schema": statements.schema}


def settle(statements: Statements) -> Statement:
    """What is deferred runs now."""
    return statements.get("session/settle"), {}


def leave(statements: Statements, *, idle: str) -> Statement:
    """As `take_back`. The last column says which transaction this is."""
    return statements.get("session/leave"), {"idle": idle}
