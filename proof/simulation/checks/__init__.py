"""What must hold of a run: each check yields one sentence for each violation."""
