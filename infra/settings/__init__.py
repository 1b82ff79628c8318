"""What a deployment can set: the fields of a stage, their checks, and the context."""
