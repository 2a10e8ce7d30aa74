"""Past orders, from the customer to the parcel, which fail as often as in the shop's own code."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from app import BRANCHES, CUSTOMERS, PRICES, ask_bank, ask_supplier
from past import Line, Past, Teller, Try, error_of

BUSY, BRISK, QUIET = 7.0, 2.0, 0.15  # orders per minute


class Orders(Teller):
    order = 0

    def tell(self) -> None:
        """Generates the orders one by one, in chronological order."""
        at = self.since
        while at < self.now - timedelta(seconds=90):
            at += timedelta(seconds=self.luck.expovariate(self._rate(at) / 60))
            self.take_order(at)

    def _rate(self, at: datetime) -> float:
        """Charts compare the last hour with the same one yesterday; other hours need few orders."""
        ago = self.now - at
        away = abs((ago + timedelta(hours=12)) % timedelta(days=1) - timedelta(hours=12))
        if away >= timedelta(minutes=70):
            return QUIET
        return BUSY if ago < timedelta(hours=36) else BRISK

    def take_order(self, at: datetime) -> None:
        self.order += 1
        order, luck = self.order, self.luck
        customer, product = luck.choice(CUSTOMERS), luck.choice(list(PRICES))
        tenant = luck.choice(BRANCHES)
        bought = {"customer": customer, "product": product}
        whole = {"order_id": order} | bought
        lines = [
            Line(0.001, "debug", "basket checked", {"product": product, "cents": PRICES[product]}),
            Line(0.01, "info", "order taken", {"order": order} | bought),
        ]
        done = self.add(
            Past(
                "take_order",
                "default",
                at,
                {"customer": customer, "product": product},
                [Try(self.soon(at), luck.uniform(0.01, 0.04), lines=lines)],
                tenant,
                tags=["web"],
                result={"order_id": order},
            )
        )
        if product in ("mug", "poster"):
            self.add(
                Past(
                    "resize_picture",
                    "pictures",
                    done,
                    {"order_id": order, "width": 120},
                    [Try(self.soon(done), luck.gauss(0.35, 0.05))],
                    tenant,
                    priority=7,
                    result={"bytes": luck.randint(13000, 14000)},
                )
            )
        self.charge(done, tenant, whole)

    def charge(self, at: datetime, tenant: str, whole: dict[str, Any]) -> None:
        luck, tries, started = self.luck.random(), [], self.soon(at)
        if luck < 0.07:
            busy = error_of(ask_bank, 0.0)
            tries.append(Try(started, 0.2, "failed", busy))
            started = tries[-1].finished_at + timedelta(seconds=2)
        is_refused = luck > 0.97
        tries.append(
            Try(started, self.luck.uniform(0.05, 0.3), "cancelled" if is_refused else "succeeded")
        )
        if 0.10 < luck < 0.102:
            paid = {"order": whole["order_id"], "customer": whole["customer"]}
            tries[-1].lines = [Line(0.05, "critical", "paid twice", paid)]
        done = self.add(
            Past(
                "charge",
                "payments",
                at,
                whole,
                tries,
                tenant,
                5,
                1,
                end_reason="cancelled by its handler: the card was refused" if is_refused else None,
            )
        )
        if not is_refused:
            self.pack(done, tenant, whole)

    def pack(self, at: datetime, tenant: str, whole: dict[str, Any]) -> None:
        tries, started = [], self.soon(at)
        if self.luck.random() < 0.05:
            sold = Line(0.004, "warning", "sold out", {"product": whole["product"]})
            tries.append(Try(started, 0.008, "snoozed", lines=[sold]))
            self.supplier(started, tenant, whole["product"])
            started += timedelta(seconds=5)
        tries.append(Try(started, self.luck.uniform(0.008, 0.03)))
        done = self.add(
            Past("pack_parcel", "parcels", at, whole, tries, tenant, tags=["warehouse"])
        )
        self.mail(done, tenant, whole["customer"])
        points = PRICES[whole["product"]] // 100
        said = Line(0.001, "info", "points awarded", {"order": whole["order_id"], "points": points})
        self.add(
            Past(
                "award_points",
                "default",
                done,
                whole,
                [Try(self.soon(done), 0.002, lines=[said])],
                tenant,
                tags=["loyalty"],
                result=points,
                event="order.packed",
            )
        )
        self.add(
            Past(
                "count_sale",
                "default",
                done,
                whole,
                [Try(self.soon(done), 0.004)],
                tenant,
                event="order.packed",
                message=f"{self.order} of {whole['product']} sold",
            )
        )

    def mail(self, at: datetime, tenant: str, to: str) -> None:
        sent = Line(0.02, "info", "mail sent", {"to": to, "subject": "on its way"})
        self.add(
            Past(
                "send_mail",
                "mail",
                at,
                {"to": to, "subject": "on its way"},
                [Try(self.soon(at), self.luck.uniform(0.02, 0.2), lines=[sent])],
                tenant,
                priority=2,
            )
        )

    def supplier(self, at: datetime, tenant: str, product: str) -> None:
        """At most four attempts, each as likely to fail as a live one."""
        tries, started = [], self.soon(at)
        for n in range(4):
            luck = self.luck.random()
            error = error_of(ask_supplier, product, luck)
            state = "failed" if error else "succeeded"
            lines = (
                [
                    Line(
                        0.1,
                        "error",
                        f"{error[0]}: {error[1]}",
                        {"error_type": error[0], "exception": error[2]},
                    )
                ]
                if error
                else []
            )
            tries.append(Try(started, self.luck.uniform(0.1, 0.4), state, error, lines))
            started = tries[-1].finished_at + timedelta(seconds=2**n)
            if error is None or "UnknownArticle" in error[0]:
                break
        gave_up = tries[-1].error is not None and "UnknownArticle" in tries[-1].error[0]
        end = "gave up on app.UnknownArticle" if gave_up else "attempts used up"
        self.add(
            Past(
                "call_supplier",
                "supplier",
                at,
                {"product": product, "pieces": 20},
                tries,
                tenant,
                4,
                key=product,
                tags=["warehouse"],
                end_reason=None if tries[-1].error is None else end,
            )
        )
