"""The page of `view` with a field to type in: one process that answers a browser on this machine.

running.py starts it, app.py answers requests, guard.py lets nobody else in and nobody take too much. The page itself is
`attncli.page.live`.
"""
