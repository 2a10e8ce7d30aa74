"""The statements sent before and after users' code in a session."""

from __future__ import annotations

from rota.postgres.statements import Statement, Statements


def lend(
    statements: Statements, *, name: str, idle: str, level: str | None, is_local: bool, opens: bool
) -> Statement:
    """Lend one of Rota's sessions to users' code; `opens` begins a transaction. The last column
    identifies the transaction."""
    params = {
        "name": name,
        "idle": idle,
        "level": level,
        "schema": statements.schema,
        "is_local": is_local,
    }
    return statements.get("session/open" if opens else "session/lend"), params


def limit(statements: Statements, *, timeout: str, is_local: bool) -> Statement:
    """Set the statement timeout from now on."""
    return statements.get("session/limit_call"), {"timeout": timeout, "is_local": is_local}


def take_back(statements: Statements, *, idle: str) -> Statement:
    """Reset the session after users' code, so that its settings do not affect the statements that
    end the run."""
    return statements.get("session/take_back"), {"idle": idle}


def clear(statements: Statements) -> Statement:
    """Remove everything that users' code has left in the session."""
    return statements.get("session/reset"), {}


def mark(statements: Statements) -> Statement:
    """Set a savepoint, for the case that the end of the run has to be written again."""
    return statements.get("session/mark"), {}


def back_to_mark(statements: Statements) -> Statement:
    return statements.get("session/back_to_mark"), {}


def commit(statements: Statements) -> Statement:
    """Commit, and reset the session to its initial state."""
    return statements.get("session/commit"), {}


def rollback(statements: Statements) -> Statement:
    return statements.get("session/rollback"), {}


# Statements for users' own connections.


def join(statements: Statements, *, name: str, idle: str) -> Statement:
    """Prepare the beginning of a transaction. The last column identifies the transaction."""
    return statements.get("session/join"), {"name": name, "idle": idle}


def whose(statements: Statements) -> Statement:
    """Return the transaction, the database, whether the role may end runs there, the role, and
    whether concurrent commits cause conflicts (isolation level)."""
    return statements.get("session/whose"), {"schema": statements.schema}


def settle(statements: Statements) -> Statement:
    """Execute deferred constraints now."""
    return statements.get("session/settle"), {}


def leave(statements: Statements, *, idle: str) -> Statement:
    """Like `take_back`, on a user's connection. The last column identifies the transaction."""
    return statements.get("session/leave"), {"idle": idle}
