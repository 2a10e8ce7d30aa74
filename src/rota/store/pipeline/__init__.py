"""What goes past the driver's cursor: claims and ends, sent together, read as they come."""
