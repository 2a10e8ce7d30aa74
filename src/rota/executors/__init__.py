"""How a body is called: in the slot, in a thread, in a process of its own."""
