"""Executors call handlers: in the slot, in a thread, in a child process, in the database."""
