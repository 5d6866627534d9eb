"""The features, a file each: a dataclass of its options, what it computes, and its report.

A feature is the class in its file that is named as the command is: `attncli train-align` is `train_align.TrainAlign`.
The command line, its help, its completion and the Python functions of `attncli` are made of these classes.
"""
