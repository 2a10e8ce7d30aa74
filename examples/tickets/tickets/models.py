"""The same table as a Django model."""

from __future__ import annotations

from django.db import connection, models, transaction

from tickets.jobs import send_ticket


class Ticket(models.Model):
    seat = models.TextField(primary_key=True)
    is_paid = models.BooleanField(default=False)

    class Meta:
        app_label = "tickets"
        db_table = "tickets"
        managed = False


def sell(seat: str) -> None:
    with transaction.atomic():
        Ticket.objects.create(seat=seat, is_paid=True)
        send_ticket.options(connection=connection).enqueue_sync(seat=seat)
