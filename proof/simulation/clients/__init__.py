"""What clients of a run ask for and are answered: the history by which it is judged."""
