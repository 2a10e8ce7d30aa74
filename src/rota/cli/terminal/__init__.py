"""The common parts of commands: output, times, values, flags."""
