"""Commands about tenants, and the tenant handle."""
