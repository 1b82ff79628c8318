"""Deploys onto an engine on this machine; imports the console and `aws` of `fanfold_cli`."""
