"""The loops that claim, run, promote, rescue and clean."""
