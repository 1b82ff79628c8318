"""A run: its clock and tasks, its tables, queues and functions, and the commands of operators."""
