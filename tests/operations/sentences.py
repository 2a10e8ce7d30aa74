"""What every declared operation says behind the name of its target: when it has changed something
and, if it can be done twice, when it has not."""

from __future__ import annotations

SENTENCES: dict[str, list[str]] = {
    "queues.pause": ["paused until it is resumed", "was already paused until it is resumed"],
    "queues.resume": ["resumed", "was not paused"],
    "queues.set": ["has at most 10,000 waiting runs, more are refused"],
    "queues.reset": ["has no limit on waiting runs"],
    "queues.clear": ["is being cleared by bulk action 1"],
    "limits.set": ["set for all runs: one at a time, after the success of the previous run"],
    "limits.remove": ["removed"],
    "tenants.set": ["is changed"],
    "tenants.reset": ["is reset to the defaults"],
    "tenants.pause": ["is paused until it is resumed", "was already paused until it is resumed"],
    "tenants.resume": ["is resumed", "was not paused"],
    "workers.drain": ["is draining", "was already draining"],
    "workers.stop": ["is draining, then stops", "was already draining, then stops"],
    "workers.resume": ["is resumed", "was not draining"],
    "calendars.create": ["created"],
    "calendars.update": ["updated"],
    "calendars.delete": ["deleted"],
    "schedules.enable": ["enabled", "was already enabled"],
    "schedules.disable": ["disabled", "was already disabled"],
    "schedules.pause": ["paused until it is resumed", "was already paused until it is resumed"],
    "schedules.resume": ["resumed", "was not paused"],
    "schedules.trigger": ["enqueued run 1 of clean"],
    "schedules.reschedule": ["runs next at TIME"],
    "schedules.delete": ["deleted"],
    "runs.cancel": ["is cancelled"],
    "errors.handle": ["handled"],
    "errors.reopen": ["reopened"],
    "bulk.pause": ["is paused; 0 runs done"],
    "bulk.resume": ["is resumed; 0 runs done"],
    "bulk.stop": ["is stopped; 0 runs done"],
    "bulk.throttle": ["has no rate limit; 0 runs done"],
    "views.save": ["saved"],
    "views.delete": ["deleted"],
    "jobs.create": ["created: it calls public.close_orders"],
    "jobs.update": ["updated"],
    "jobs.enable": ["enabled", "was already enabled"],
    "jobs.disable": ["disabled", "was already disabled"],
    "jobs.delete": ["deleted"],
    "jobs.rename": ["renamed, 0 unfinished runs moved"],
    "cleanup.add": ['cleanup "cleanup_webhook_deliveries" is added, every day at 03:00 (UTC)'],
    "cleanup.add_recipe": [
        'cleanup "stale_session_cleanup" is added, every hour, on the hour (UTC)'
    ],
    "cleanup.remove": ["is removed"],
    "cleanup.run": ["is enqueued as run 1"],
    "watches.add": [
        "watch 2: shop.orders emits shop.orders.insert, shop.orders.update, shop.orders.delete"
    ],
    "events.emit": ["event 2: stored, but it started nothing"],
    "events.replay": ["1 event: started 1 run"],
    "watches.remove": ["is removed"],
}
