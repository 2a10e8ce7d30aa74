from __future__ import annotations

from django.db import connection, models, transaction


class Order(models.Model):
    is_paid = models.BooleanField(default=False)


def place(order_id: int) -> None:
    """In the same transaction."""
    from orders.jobs import charge

    with transaction.atomic():
        Order.objects.create(id=order_id)
        charge.options(connection=connection).enqueue_sync(order_id)
