"""What must be so by what was asked for and answered alone, said without the product."""
