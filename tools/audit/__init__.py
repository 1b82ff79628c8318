"""What is known about the packages that run, build and test Fanfold: faults, and licences."""
