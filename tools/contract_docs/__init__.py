"""`python -m tools.contract_docs` writes the public documents of the contract."""
