"""Commands that don't end by themselves: what they do is tried in tests of their own."""

LIVE = {"explore", "serve"}
