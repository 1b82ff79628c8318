"""What a publisher decides, and sees: who may follow, and who does."""
