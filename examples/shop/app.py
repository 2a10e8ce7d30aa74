"""A small shop that keeps itself busy: `./script/demo` prepares and runs it.

Customers of two branches place orders (about one every four seconds). Orders are charged, packed
and confirmed by mail, the supplier's API is down half of the time, pictures are resized in child
processes, and every evening, which comes after about three minutes, there is a report.

`python examples/shop/prepare.py` creates its tables, its schedules and three days of history;
`rota dev --app examples/shop/app.py` runs it.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib

import rota

app = rota.App(name="shop")

PRICES = {"mug": 1200, "poster": 1900, "lamp": 4900, "chair": 12900, "kettle": 3900}
CUSTOMERS = ["Ada", "Barbara", "Edsger", "Grace", "Katherine", "Radia", "Tony"]
BRANCHES = ["north", "south"]  # the tenants
REPORT_SECONDS = 45.0


class UnknownArticle(Exception):
    """The supplier does not sell it: retrying does not help."""


# An order, from the customer to the parcel.


@app.job(tags=["web"], log_level="debug")
async def take_order(ctx: rota.Context, customer: str, product: str) -> dict[str, int]:
    """Stores the order and enqueues its payment; both commit together with this run."""
    ctx.log.debug("basket checked", product=product, cents=PRICES[product])
    async with ctx.transaction() as conn:
        cursor = await conn.execute(
            "INSERT INTO shop.orders (customer, product, cents) VALUES (%s, %s, %s) RETURNING id",
            [customer, product, PRICES[product]],
        )
        (order_id,) = await cursor.fetchone() or (0,)
        its = {"connection": conn, "tenant": ctx.tenant}
        await charge.options(**its).enqueue(order_id, customer, product)
        if product in ("mug", "poster"):  # they carry the customer's own picture
            await resize_picture.options(**its).enqueue(order_id)
    ctx.log.info("order taken", order=order_id, customer=customer, product=product)
    return {"order_id": order_id}


@app.job(queue="payments", priority=1, max_attempts=5, backoff={"base": 1, "cap": 20}, timeout=10)
async def charge(ctx: rota.Context, order_id: int, customer: str, product: str) -> None:
    """Charges the card. Retries if the bank is busy; cancels if the card is refused."""
    await asyncio.sleep(random.uniform(0.05, 0.3))
    luck = random.random()
    if luck < 0.03:
        raise rota.Cancel("the card was refused")
    ask_bank(luck)
    if luck < 0.105:
        ctx.log.critical("paid twice", order=order_id, customer=customer, cents=PRICES[product])
    async with ctx.transaction() as conn:
        await conn.execute("UPDATE shop.orders SET state = 'paid' WHERE id = %s", [order_id])
        its = {"connection": conn, "tenant": ctx.tenant}
        await pack_parcel.options(**its).enqueue(order_id, customer, product)


def ask_bank(luck: float) -> None:
    if luck < 0.10:
        raise rota.Retry(delay=2, message="the bank is busy")


@app.job(
    queue="parcels",
    tags=["warehouse"],
    limits=rota.concurrency(1, key="branch:{tenant}", name="packing-tables"),
)
async def pack_parcel(ctx: rota.Context, order_id: int, customer: str, product: str) -> None:
    """Takes a piece from the stock. If none is left, orders more and snoozes."""
    async with ctx.transaction() as conn:
        cursor = await conn.execute(
            "UPDATE shop.stock SET pieces = pieces - 1 WHERE product = %s AND pieces > 0",
            [product],
        )
        if cursor.rowcount == 0:
            # With the key there is one call per product, even if several runs find it sold out.
            supplier = call_supplier.options(key=product, tenant=ctx.tenant)
            run = await supplier.enqueue(product, pieces=20)
            ctx.log.warning("sold out", product=product, supplier_run=run.id)
            raise rota.Snooze(5)
        await conn.execute("UPDATE shop.orders SET state = 'packed' WHERE id = %s", [order_id])
        its = {"connection": conn, "tenant": ctx.tenant}
        await send_mail.options(priority=2, **its).enqueue(customer, "on its way")
        # Bound to this event: award_points below, and count_sale, which is a SQL function.
        packed = {"order_id": order_id, "customer": customer, "product": product}
        await app.emit("order.packed", packed, **its)


@app.job(
    queue="supplier",
    max_attempts=4,
    timeout=2,
    backoff=rota.Backoff("exponential", base=1, cap=15),
    give_up_on=UnknownArticle,
    tags=["warehouse"],
    limits=rota.rate(30, per=60, name="supplier-calls"),
)
async def call_supplier(ctx: rota.Context, product: str, pieces: int) -> dict[str, int]:
    """Orders more pieces from a supplier with an unreliable API."""
    luck = random.random()
    if luck < 0.15:
        await asyncio.sleep(10)  # longer than the timeout
    ask_supplier(product, luck)
    async with ctx.transaction() as conn:
        await conn.execute(
            "UPDATE shop.stock SET pieces = pieces + %s WHERE product = %s", [pieces, product]
        )
    return {"delivered": pieces}


def ask_supplier(product: str, luck: float) -> None:
    if luck < 0.50:
        raise ConnectionError("503 from the supplier: try again later")
    if luck < 0.55:
        raise UnknownArticle(f"the supplier has no article {product!r}")


@app.job(events=["order.packed"], tags=["loyalty"])
async def award_points(ctx: rota.Context, order_id: int, customer: str, product: str) -> int:
    """Bound to an event: the code that packs the parcel does not know about it."""
    points = PRICES[product] // 100
    ctx.log.info("points awarded", order=order_id, customer=customer, points=points)
    return points


@app.job(queue="mail", max_attempts=3)
def send_mail(ctx: rota.Context, to: str, subject: str) -> None:
    """Blocking code: a `def` handler runs in a thread."""
    time.sleep(random.uniform(0.02, 0.2))
    if random.random() < 0.02:
        raise TimeoutError("the mail server did not answer")
    ctx.log.info("mail sent", to=to, subject=subject)


@app.job(executor="process", queue="pictures", priority=7, timeout=30)
def resize_picture(order_id: int, width: int = 120) -> dict[str, int]:
    """CPU-bound work in a child process: it neither delays other runs nor crashes them."""
    noise = random.Random(order_id)
    picture = [[noise.randrange(256) for _ in range(width * 2)] for _ in range(width * 2)]
    small = bytes(
        (picture[y][x] + picture[y][x + 1] + picture[y + 1][x] + picture[y + 1][x + 1]) // 4
        for y in range(0, width * 2, 2)
        for x in range(0, width * 2, 2)
    )
    return {"bytes": len(zlib.compress(small))}


# The shop's day.


@app.job
async def open_shop(ctx: rota.Context, rounds: int = 24, orders: int = 2, pause: int = 8) -> int:
    """Enqueues orders in rounds. Between rounds this run is snoozed, which occupies no slot."""
    await app.enqueue_many(
        take_order.options(delay=random.uniform(0, pause), tenant=random.choice(BRANCHES)).call(
            customer=random.choice(CUSTOMERS), product=random.choice(list(PRICES))
        )
        for _ in range(orders)
    )
    if ctx.attempt < rounds:
        raise rota.Snooze(pause)
    async with ctx.transaction() as conn:
        await close_shop.options(connection=conn).enqueue()
    return orders * rounds


@app.job
async def close_shop(ctx: rota.Context) -> None:
    """Enqueues the report, the newsletter and the next day."""
    async with ctx.transaction() as conn:
        await nightly_report.options(connection=conn).enqueue()
        await app.enqueue_many(
            (send_mail.options(priority=9).call(name, "what is new") for name in CUSTOMERS),
            connection=conn,
        )
        await open_shop.options(connection=conn, key="shop", delay=15).enqueue()


@app.job(queue="reports", timeout=300, max_attempts=2)
def nightly_report(ctx: rota.Context) -> dict[str, int]:
    """Slow, and reports its progress. A thread must check itself whether it is cancelled."""
    # Not ctx.transaction_sync(): it would stay open until the report is done, and hold back VACUUM.
    with app.database.connection_sync() as conn:
        rows = conn.execute(
            "SELECT product, count(*), sum(cents) FROM shop.orders GROUP BY product"
        ).fetchall()
    sales = dict.fromkeys(PRICES, (0, 0)) | {product: its for product, *its in rows}
    for n, (product, (count, cents)) in enumerate(sales.items(), start=1):
        if ctx.is_cancelled:
            raise rota.Cancel("the report is no longer needed")
        time.sleep(REPORT_SECONDS / len(sales))
        ctx.progress(n / len(sales), f"counted {product}")
        ctx.log.info("counted", product=product, orders=count, cents=cents)
    return {product: cents for product, (_, cents) in sales.items()}


@app.job(queue="supplier", max_attempts=2, backoff={"base": 5}, tags=["warehouse"])
async def import_prices(ctx: rota.Context, feed: str = "spring") -> dict[str, int]:
    """Imports the supplier's price list, which is often broken."""
    ctx.log.info("price list asked for", feed=feed)
    prices = read_feed(random.random())
    ctx.log.info("prices read", articles=len(prices))
    return prices


PRICE_LIST = "  line 3: expected a number, found 'soon'\n  line 9: no article"


class BrokenFeed(Exception):
    """The supplier's price list cannot be parsed."""


def read_feed(luck: float) -> dict[str, int]:
    if luck < 0.55:
        raise BrokenFeed(f"the price list cannot be read\n{PRICE_LIST}")
    return {product: cents - 100 for product, cents in PRICES.items()}


@app.job(queue="newsletter", priority=8, tags=["marketing"])
async def send_newsletter(ctx: rota.Context, to: str) -> None:
    await asyncio.sleep(0.05)
    ctx.log.info("newsletter sent", to=to)


@app.job(tags=["marketing"])
async def start_sale(ctx: rota.Context, percent: int = 20) -> None:
    ctx.log.warning("the sale begins", percent=percent)


# The schedules. prepare.py adds those that need a calendar or a date.

app.schedule(
    "evening-report",
    nightly_report,
    cron="0 22 * * *",
    timezone="Europe/Berlin",
    description="Sales of the day, for the owners.",
    tags=["reports"],
)
app.schedule("sales-so-far", nightly_report, every=300, overlap="skip", tags=["reports"])
app.schedule(
    "price-list",
    import_prices,
    cron="*/10 * * * *",
    description="The supplier's prices, if the list can be read.",
    catch_up="none",
    tags=["warehouse"],
)
