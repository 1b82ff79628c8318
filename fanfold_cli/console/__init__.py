"""The page of `fanfold console`, and the bridge that serves it on loopback."""
