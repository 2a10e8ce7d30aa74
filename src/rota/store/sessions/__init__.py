"""Sessions with the server: opened, pooled, lent, and what is said when there are none."""
