"""Schedules, their next times and the calendars that they share."""
