"""Fanfold, a follow timeline: the product. The doors are in functions/, the CDK app in infra/."""
