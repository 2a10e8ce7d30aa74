"""`rota jobs`."""
