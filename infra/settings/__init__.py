"""What a deployment may be told: the fields of a stage, their checks, and the context."""
