"""The proof: the whole system on `aws_model` in virtual time; imports `functions` and below."""
