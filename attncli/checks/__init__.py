"""What runs a model to find out whether something is true.

`agreement`: does the forward pass compute what other programs compute? `laws`: do masks and positions do what
the theory says? `bench`: how fast is it, beside transformers?
"""
