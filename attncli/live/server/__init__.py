"""The page of `view` with a field to type in: one process that answers a browser on this machine.

running.py starts it; app.py says what is asked where; guard.py lets nobody else in, and limits.py nobody take too much.
asking.py reads what a page asks for, site.py knows what it may ask for, answers.py makes it, waiting.py tells how far
it is. The page itself is `attncli.render.page.live`.
"""
