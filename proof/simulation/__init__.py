"""The proof: the whole system on `proof.model` in virtual time; imports `functions` and below."""
