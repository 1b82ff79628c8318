"""The operator's check of follows and edges; imports all rooms but `fanout`."""
