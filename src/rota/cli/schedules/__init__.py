"""`rota schedules` and `calendars`."""
