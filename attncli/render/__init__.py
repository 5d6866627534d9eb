"""A record made visible: in the terminal (`terminal`), as a picture (`figure`), as a page.

Nothing here runs a model or imports torch; rich serves the terminal only, matplotlib pictures only.
"""
