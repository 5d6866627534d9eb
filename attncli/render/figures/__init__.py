"""Records and results as pictures: PNG, SVG and PDF, drawn with matplotlib and without a display.

`heatmap` draws a record; the modules named after commands draw what those found. What all panels of a picture share is
a `Grid`; `matrix` and `lines` draw panels, `layout` says where everything goes, `drawing` has what all pictures share.
"""
