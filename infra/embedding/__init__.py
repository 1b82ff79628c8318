"""What an app of your own gives a timeline: properties, users, network, key and domain."""
