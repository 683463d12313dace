"""Step sizes in the logs of Hugging Face's `Trainer`."""

from typing import Any

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        "adamqlr.torch.huggingface needs transformers: pip install 'adamqlr[clients]'"
    ) from error


class StepSizes(TrainerCallback):
    """Adds what the last step did to each line of the logs: its size and damping.

    `Trainer(..., callbacks=[StepSizes()])` has them in `trainer.state.log_history` and
    in what is printed. Trackers such as TensorBoard are called before one's own
    callbacks: `trainer.callback_handler.callbacks.insert(0, StepSizes())` serves them
    as well. What the trainer calls the learning rate is the schedule's factor.
    """

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, float] | None = None,
        optimizer: Any = None,
        **_: Any,
    ) -> None:
        """See `TrainerCallback`."""
        # accelerate has put a wrapper around it.
        info = getattr(optimizer, "optimizer", optimizer).info
        if info is None or logs is None:
            return
        logs |= {"step_size": info.step_size, "damping": info.damping}
        state.log_history[-1] |= logs
