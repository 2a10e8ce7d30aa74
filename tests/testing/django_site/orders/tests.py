"""Run by Django, in a process that tests/testing/test_django.py starts."""

from __future__ import annotations

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from orders.jobs import app, charge, look
from orders.models import Order, place
from rota.testing import assert_enqueued, run_all_sync


class RollsBack(TestCase):
    def test_in_the_same_transaction(self) -> None:
        place(1)
        assert_enqueued(app, charge, payload={"order_id": 1}, count=1, connection=connection)

    def test_nothing_is_left(self) -> None:
        place(1)
        assert_enqueued(app, charge, payload={"order_id": 1}, count=1, connection=connection)


class OnCommit(TestCase):
    def test_after_the_commit(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            transaction.on_commit(lambda: charge.enqueue_sync(2))
        assert_enqueued(app, charge, payload={"order_id": 2})


class Runs(TransactionTestCase):
    def test_handlers_use_the_orm(self) -> None:
        place(3)
        (ended,) = [run for run in run_all_sync(app) if run.payload == {"order_id": 3}]
        assert ended.state == "succeeded"
        assert Order.objects.get(id=3).is_paid
        look.enqueue_sync(3)
        (ended,) = run_all_sync(app)
        assert ended.result is True
