"""What goes wrong in a run: faults by rate, troubles that last, damage by human hands."""
