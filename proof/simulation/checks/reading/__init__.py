"""What readers are shown and told."""
