"""Deploys onto an engine on this machine; imports `aws`, `console` and `stack` of `fanfold_cli`."""
