"""The explorer: the attention heads for typed text, full screen in the terminal.

app.py contains the screen, its actions and the threads that compute answers. panes.py contains the state of the screen
(`ScreenState`), the answers, and the panes that draw them. findings.py lists the heads that stand out. window.py draws
one head.
"""
