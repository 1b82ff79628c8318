"""A post's way from acceptance to its last entry; imports all rooms but `doctor`."""
