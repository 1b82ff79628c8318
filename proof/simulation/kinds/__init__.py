"""The kinds of worlds that seeds make."""
