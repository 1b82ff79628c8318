"""Who follows whom, and where the edges lie; imports the ground, `aws` and `timeline`."""
