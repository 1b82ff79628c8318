"""`fanfold demo --hurt`: the real stack on an engine of its own, which may be hurt.

It needs the checkout: its workers run the functions, and what refuses batches is a part of the
simulation.
"""
