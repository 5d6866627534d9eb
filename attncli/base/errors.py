"""What can go wrong through no fault of the program, and what the user should merely hear of."""


class RequestError(Exception):
    """A request that can't be met: the message is one line that says what, where, and what to do.

    The command line prints it and ends with exit code 2.
    """


class Notice(UserWarning):
    """Something the user should know although the request was met (`warnings.warn(text, Notice)`).

    The command line prints it on stderr.
    """
