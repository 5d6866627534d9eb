"""The page of `view` with a text field: one process that serves a browser on this machine.

running.py starts it, app.py answers requests, and guard.py restricts access and resources. The page itself is
`attncli.page.document`.
"""
