"""How long an engine of the tests lives, should nothing end it."""

# Modules come in random order: the first test of a run may start an engine that the last one asks.
# No run of CI takes longer than 90 minutes; an engine whose tests were killed still ends by itself.
LIFETIME_HOURS = 2.0
