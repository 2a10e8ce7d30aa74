"""Tenants: their settings, and all data of one exported or deleted."""
