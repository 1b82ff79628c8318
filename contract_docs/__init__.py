"""The public documents of the contract, written at development time: `python -m contract_docs`."""
