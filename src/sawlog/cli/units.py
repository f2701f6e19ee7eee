"""Durations and sizes as text."""

_DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def show_duration(seconds: float) -> str:
    """Format a duration in at most two units: `0.5s`, `45s`, `2m 5s`, `3h 20m`, `2d 4h`."""
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    left = round(seconds)
    parts = []
    for unit, size in _DURATION_UNITS:
        count, left = divmod(left, size)
        parts.append((count, unit))
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count)


def show_size(size_bytes: int) -> str:
    """Format a size with three digits at least: `999 B`, `1.50 KiB`, `64.0 MiB`, `512 GiB`."""
    value = float(size_bytes)
    for unit in _SIZE_UNITS:
        if abs(value) < 999.5 or unit == _SIZE_UNITS[-1]:
            break
        value /= 1_024
    if unit == "B":
        return f"{size_bytes} B"
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f} {unit}"
