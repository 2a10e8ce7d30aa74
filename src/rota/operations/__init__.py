"""The use cases that the command line, the API and the dashboard share."""
