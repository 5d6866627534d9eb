"""The explorer: the heads of what is typed, full screen in the terminal.

app.py is the screen and asks; look.py is what is looked at, which actions.py change; answers.py is what is drawn, made
in a thread; panes.py draw it.
"""
