"""What all commands share: output, times, values, flags."""
