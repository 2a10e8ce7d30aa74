"""Claims and ends, pipelined without the driver's cursor and read as they arrive."""
