"""What `fanfold preflight` compares: the synthesized stack, the account, and the issuer."""
