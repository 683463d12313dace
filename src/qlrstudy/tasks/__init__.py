"""The tasks, by the names they have on the command line; each at its scales."""

from qlrstudy.spec import Task
from qlrstudy.tasks import rosenbrock

TASKS: dict[str, dict[str, Task]] = {
    "rosenbrock": rosenbrock.SCALES,
}
