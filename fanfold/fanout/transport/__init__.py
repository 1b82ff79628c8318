"""Makes the calls of deliveries, by libcurl or boto3."""
