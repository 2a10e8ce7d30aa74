"""What is past its time, removed in steps."""
