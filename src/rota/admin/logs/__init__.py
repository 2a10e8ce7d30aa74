"""Commands about log lines."""
