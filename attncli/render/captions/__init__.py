"""What is said, in whichever medium: titles, meanings and notes as plain text, a module a subject.

Nothing here knows how it is drawn: a picture needs no rich, a terminal no matplotlib. Names and tokens come from
outside and are made harmless here.
"""
