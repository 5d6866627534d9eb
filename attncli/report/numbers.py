"""Write a number in a cell, and elsewhere."""


def in_cell(value: float) -> str:
    """Write a number in a cell: two decimals, "<.01" if it rounds to 0, and "0" for 0."""
    if value == 0:
        return "0"
    if abs(value) < 0.005:
        return "<.01" if value > 0 else ">-.01"
    return f"{value:.2f}"


def three_digits(value: float) -> str:
    """Write a number with three significant digits, or all digits of a larger whole part, and "0" for 0."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def signed(value: float) -> str:
    """Write a number with three significant digits and its sign."""
    return f"+{three_digits(value)}" if value > 0 else three_digits(value)
