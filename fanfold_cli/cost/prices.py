"""The prices in all estimates: on-demand list prices of us-east-1, without free tiers.

As third-party price guides quoted them in November 2026; AWS's own pages are authoritative.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """The prices that `fanfold cost` uses and shows."""

    region: str = "us-east-1"
    as_of: str = "November 2026"
    # https://aws.amazon.com/dynamodb/pricing/on-demand/: halved in November 2024
    dollars_per_million_writes: float = 0.625
    dollars_per_million_reads: float = 0.125
    # https://aws.amazon.com/lambda/pricing/: Arm, below 7.5 billion GB-seconds a month
    dollars_per_gb_second: float = 0.0000133334
    dollars_per_million_requests: float = 0.20

    def dynamodb(self, *, writes: float = 0.0, reads: float = 0.0) -> float:
        """The price of write and read units, in dollars."""
        return (
            writes / 1e6 * self.dollars_per_million_writes
            + reads / 1e6 * self.dollars_per_million_reads
        )

    def functions(self, *, gb_seconds: float, invocations: float) -> float:
        """The price of Lambda functions, in dollars."""
        return (
            gb_seconds * self.dollars_per_gb_second
            + invocations / 1e6 * self.dollars_per_million_requests
        )


PRICES = Prices()

# https://aws.amazon.com/dynamodb/pricing/on-demand/: a GB for a month in a table, and in its
# point-in-time recovery
DOLLARS_PER_GB_STORED = 0.25 + 0.20
# https://aws.amazon.com/sqs/pricing/: standard queues
DOLLARS_PER_MILLION_SQS_REQUESTS = 0.40
# https://aws.amazon.com/api-gateway/pricing/: HTTP APIs
DOLLARS_PER_MILLION_API_REQUESTS = 1.00
# https://aws.amazon.com/cloudwatch/pricing/
DOLLARS_PER_LOG_GB = 0.50
DOLLARS_PER_ALARM_METRIC_MONTH = 0.10
DOLLARS_PER_METRIC_MONTH = 0.30
DOLLARS_PER_THOUSAND_METRICS_READ = 0.01
# https://aws.amazon.com/ec2/pricing/on-demand/: transfer to the internet
DOLLARS_PER_GB_OUT = 0.09
# https://aws.amazon.com/cognito/pricing/: of the tier Essentials, which a new pool has
DOLLARS_PER_ACTIVE_USER = 0.015
