"""What the doctor finds: one sentence a check, and what is to be done about it."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "info", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`failed`: the relay cannot run, or not as promised. `warning`: it can, at a risk. `info`: nobody can tell from
    here.
    """

    check: str
    verdict: Verdict
    says: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.says}; {self.remedy}" if self.remedy else self.says


def ok(check: str, says: str) -> Finding:
    return Finding(check, "ok", says)


def info(check: str, says: str, remedy: str = "") -> Finding:
    return Finding(check, "info", says, remedy)


def warning(check: str, says: str, remedy: str) -> Finding:
    return Finding(check, "warning", says, remedy)


def failed(check: str, says: str, remedy: str) -> Finding:
    return Finding(check, "failed", says, remedy)
