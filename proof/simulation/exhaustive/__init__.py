"""Small scopes, exhaustively: every order in which the real functions' calls to AWS can happen."""
