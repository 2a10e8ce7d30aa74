from __future__ import annotations

import os

import rota

app = rota.App(os.environ["SITE_DATABASE_URL"], name="orders")


@app.job
def charge(order_id: int) -> None:
    from orders.models import Order

    Order.objects.filter(id=order_id).update(is_paid=True)


@app.job
async def look(order_id: int) -> bool:
    from orders.models import Order

    return (await Order.objects.aget(id=order_id)).is_paid


@app.job(executor="process")
def charge_in_process(order_id: int) -> None:
    from orders.models import Order

    Order.objects.filter(id=order_id).update(is_paid=True)
