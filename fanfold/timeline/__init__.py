"""What a reader sees: entries, posts, pages; imports the ground and `aws`."""
