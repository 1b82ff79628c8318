"""The proof: the whole system on `proof.model` in virtual time; imports `functions` and below.

A seed draws one of the `kinds`, and its `world` runs. In it `actors` act and `faults` strike.
`clients` keeps what they asked for and were answered, `observed` what was seen call by call.
`checks` judge both, some of them by an `oracle`. `timed` has the worlds of the benches.
"""
