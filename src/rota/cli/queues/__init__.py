"""`rota queues` and `limits`."""
