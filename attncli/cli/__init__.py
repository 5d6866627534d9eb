"""The commands: parse options, call the library, print the result. Heavy imports are inside functions."""
