"""Pure data and decisions: no I/O, no clock, no logging."""
