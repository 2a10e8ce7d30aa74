"""Removal of data past its retention, in steps."""
