"""Sessions with the server: opening, pooling and lending them, and explaining why none is
available."""
