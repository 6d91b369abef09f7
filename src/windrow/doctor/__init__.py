"""The doctor: looks at all that a relay needs, in order, and says of each whether it is as it should be.

It goes on after a failure wherever the next check still makes sense, changes nothing, and disturbs no relay that runs.
What is asked of a server and what is concluded from the answer are different functions.
"""

from windrow.doctor.examination import examine
from windrow.doctor.finding import Finding, Verdict
from windrow.doctor.machine import examine_machine

__all__ = ["Finding", "Verdict", "examine", "examine_machine"]
