"""What a step on a GPU leaves to be heard, so that the host need not wait for it.

A GPU is given its work ahead. If the host reads a number of it, it waits until all work
before is done, and then the GPU waits for the host. So a step decides on the GPU, by
tensors, whether it is made. What the host must know of it is copied aside while the GPU
goes on, and is read in the next step, by when the GPU has that one's gradient to take.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adamqlr.rules import Truth
from adamqlr.torch.bundles import Bundles
from adamqlr.torch.directions import uncount
from adamqlr.torch.recording import Recorder
from adamqlr.torch.scalars import placed
from adamqlr.torch.taken import Doubts


def is_read_later(device: torch.device) -> bool:
    """Whether to let a device go on; others have no work ahead, or were not tried."""
    return device.type == "cuda"


class Later:
    """Numbers on their way to the host, which comes to read them later."""

    def __init__(self, numbers: Tensor):
        # To memory that the system may not move, which torch sees to.
        self._copy = numbers.to("cpu", non_blocking=True)
        self._arrival: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._arrival = torch.cuda.Event()
            self._arrival.record(torch.cuda.current_stream(numbers.device))

    def read(self) -> list[float]:
        """The numbers, once they have arrived."""
        if self._arrival is not None:
            self._arrival.synchronize()
        return self._copy.tolist()


class Pending:
    """A step of which the host does not know yet whether it was made.

    Args:
        sound: whether it was, on the device.
        due: whether the next one is to look.
        doubts: about the gradients of a watched loop, if it was one.
        bundles: whose states have counted it.
        recorder: that says what the doubts are.
    """

    def __init__(
        self,
        sound: Tensor,
        due: Truth,
        doubts: Doubts | None,
        bundles: Bundles,
        recorder: Recorder | None,
    ):
        about = [] if doubts is None else list(doubts)
        answers = [placed(answer, sound.device) for answer in (sound, due, *about)]
        self._answers = Later(torch.stack(answers))
        self._bundles, self._recorder = bundles, recorder

    def settled(self) -> bool:
        """Whether the next step looks; a step that was not made is not counted.

        Raises what the recorder refuses, of which nothing has come.
        """
        sound, due, *about = self._answers.read()
        if not sound:
            uncount(bundle.state for bundle in self._bundles.members)
            self._bundles.publish()
        if self._recorder is not None and about:
            self._recorder.refuse(Doubts(*about))
        return bool(due)
