"""`rota tenants`."""
