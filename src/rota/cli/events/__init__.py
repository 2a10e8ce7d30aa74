"""`rota events`."""
