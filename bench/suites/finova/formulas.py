"""The process that compares formulas: each frame holds two, the answer says whether they are equal.

The first frame that it sends says that math-verify is loaded. `worker` starts and ends it.
"""

from adapters.frames import bound_memory, frame, own_pipes, read_frame
from bench.suites.finova.mathematics import are_equal_formulas

MOST_BYTES = 2**31


def main() -> None:
    """Answer frames until the pipe ends."""
    frames, out = own_pipes()
    bound_memory(MOST_BYTES)
    are_equal_formulas(r"\sqrt{4}", "2")  # loads math-verify, which takes seconds
    out.write(frame({"ready": True}))
    out.flush()
    while (read := read_frame(frames)) is not None:
        head, _ = read
        try:
            equal = are_equal_formulas(head["gold"], head["given"])
        except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError):
            equal = False  # no formula that sympy can work with
        out.write(frame({"equal": equal}))
        out.flush()


if __name__ == "__main__":
    main()
