"""Check somebody's code: open it, run it, and run the whole check in a process with limits."""
