"""What runs a model to find out whether something is true.

`agreement`: does the forward pass compute what other programs compute, and `ways`: do the other ways in which
numbers are made? `laws`, `masking`: do masks and positions do what the theory says? `mechanisms`: is what the
tutorials claim true of a real head? `bench_maps`, `bench_stats`: how fast is it, beside transformers?
"""
