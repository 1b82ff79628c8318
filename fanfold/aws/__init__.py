"""How AWS is called; imports the ground, and boto3 and libcurl in one module each."""
