"""Workers: reading them, orders of operators, and their own registration and state."""
