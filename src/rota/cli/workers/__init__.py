"""`rota worker` and `workers`."""
