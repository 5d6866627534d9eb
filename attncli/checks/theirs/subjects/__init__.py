"""What somebody hands in: opened, inspected and run, in a process of its own or in this one."""
