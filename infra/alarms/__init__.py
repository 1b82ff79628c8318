"""The alarms of a stage: their rules by subject, and the topic that they notify."""
