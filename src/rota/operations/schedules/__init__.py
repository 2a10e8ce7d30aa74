"""Commands about schedules and calendars."""
