"""Publishers with many followers: their write shards and their channels."""
