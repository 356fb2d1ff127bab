"""What a golden case of a rule is: its input, and what must be found in it.

`low` and `high` are the saving in us, worked out by hand from the description of the trace, which
`why` repeats; nothing here asks the program.
"""

from dataclasses import dataclass, field

COLUMNS = (
    "id",
    "cause",
    "saving_ns_per_step.low",
    "saving_ns_per_step.high",
    "bytes",
    "steps_until_oom",
    "where.rank",
    "where.operator",
    "where.file",
    "where.line",
)


@dataclass
class Finding:
    id: str
    low: float = 0
    high: float = 0
    cause: str | None = None
    bytes: int | None = None
    until_oom: int | None = None
    rank: int | None = None
    op: str | None = None
    place: tuple = (None, None)  # file and line

    def cells(self):
        bounds = (round(us * 1000) for us in (self.low, self.high))
        return (
            self.id,
            self.cause,
            *bounds,
            self.bytes,
            self.until_oom,
            self.rank,
            self.op,
            *self.place,
        )


@dataclass
class Case:
    rule: str
    kind: str
    files: dict  # name -> recording, or text
    why: str  # what is special about the input, and the arithmetic: two lines
    findings: list = field(default_factory=list)
    state: str = "fine"  # of the rule, where it finds nothing
    inputs: str = "input.json"


def three(
    rule,
    draw,
    fires,
    found,
    hand,
    near,
    silent,
    asks="at least 5 % of the step",
    near_found=(),
    silent_found=(),
    without=None,
    inputs=None,
):
    """The three cases of a rule: each has the value that `draw` makes a recording of, or several
    files, and a sentence about it.

    `hand` is how `found` was worked out, `asks` what the near miss falls short of. `without` draws
    the silent case when that has no value.
    """

    def case(kind, value, sentence, more, findings):
        drawn = without() if value is None else draw(value)
        files = drawn if isinstance(drawn, dict) else {"input.json": drawn}
        words = inputs or " ".join(files)
        return Case(rule, kind, files, f"{sentence}\n{more}\n", list(findings), inputs=words)

    return [
        case("fires", *fires, hand, found),
        case("near_miss", *near, f"The rule asks for {asks}.", near_found),
        case("silent", *silent, "The rule has nothing to say.", silent_found),
    ]
