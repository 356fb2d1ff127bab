"""Half-open intervals as plain sorted lists: slow, obvious, exact.

An interval is a pair (start, end) of integers; an empty one (start == end) holds no time.
"""


def union(intervals):
    """Sorted, disjoint, non-empty intervals that cover the same time."""
    out = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def length(intervals):
    """Time covered by the intervals, counted once where they overlap."""
    return sum(end - start for start, end in union(intervals))


def intersect(a, b):
    """Time that both cover."""
    a, b = union(a), union(b)
    out, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            out.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return out


def subtract(a, b):
    """Time that a covers and b does not."""
    out = []
    b = union(b)
    j = 0
    for start, end in union(a):
        while j < len(b) and b[j][1] <= start:
            j += 1
        k, at = j, start
        while k < len(b) and b[k][0] < end:
            if at < b[k][0]:
                out.append((at, b[k][0]))
            at = max(at, b[k][1])
            k += 1
        if at < end:
            out.append((at, end))
    return out
