"""Small changes of the protocol's modules, each of which a test or the simulation must notice."""
