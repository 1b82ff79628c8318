"""The lifetime of a test's engine, in case nothing ends it before."""

# Tests run in random order, so an engine may serve from the first test to the last. No run takes
# longer than 90 minutes. An engine whose tests were killed still ends by itself.
LIFETIME_HOURS = 2.0
