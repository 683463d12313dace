"""The experiments behind adamqlr: tasks, algorithms, and runs that are not lost."""
