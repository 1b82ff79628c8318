"""Who acts in a run: what each of them does, drawn from the seed."""
