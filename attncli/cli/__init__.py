"""The commands: parse options, call the library, print. One file a command; heavy imports inside functions."""
