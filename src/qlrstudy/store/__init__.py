"""The disk: runs, tunings, studies and archives, read and written here alone."""
