"""Commands about tenants, and the application as one tenant sees it."""
