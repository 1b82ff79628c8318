"""A day on AWS: deploy a stage, publish, measure, check every row, report, and remove it again."""
