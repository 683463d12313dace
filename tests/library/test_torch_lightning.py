"""Inside Lightning: its own wrapper takes an objective, counts and checkpoints it."""

import pytest
import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from adamqlr.torch import AdamQLR, Categorical, Objective

pl = pytest.importorskip("pytorch_lightning", reason="of the extra `clients`")

pytestmark = [
    # Advice on loading faster, and Lightning's use of a name that torch is to drop.
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),
]
BATCHES = 6


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self.losses = []

    def training_step(self, batch, _):
        objective = Objective(self.net, Categorical(), *batch)
        loss = self.optimizers().step(objective)
        self.log("loss", loss)
        self.losses.append(loss.item())

    def configure_optimizers(self):
        return AdamQLR(self.parameters())


def batches():
    torch.manual_seed(0)
    x = torch.randn(BATCHES * 16, 4)
    return DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=16)


def fitted(folder, epochs, precision="32-true", checkpoint=None, strategy="auto"):
    model = Classifier()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        strategy=strategy,
        max_epochs=epochs,
        precision=precision,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[pl.callbacks.ModelCheckpoint(folder, save_last=True)],
    )
    trainer.fit(model, batches(), ckpt_path=checkpoint)
    return model, trainer


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_trainer_trains_and_counts_the_steps(tmp_path, precision):
    model, trainer = fitted(tmp_path, 3, precision)
    assert trainer.global_step == 3 * BATCHES
    assert sum(model.losses[-BATCHES:]) < 0.8 * sum(model.losses[:BATCHES])
    assert trainer.callback_metrics["loss"].item() == pytest.approx(model.losses[-1])


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* is not empty")
def test_a_checkpoint_goes_on_as_if_it_had_not_stopped(tmp_path):
    whole, _ = fitted(tmp_path / "whole", 3)
    fitted(tmp_path, 1)
    resumed, trainer = fitted(tmp_path, 3, checkpoint=tmp_path / "last.ckpt")
    assert trainer.global_step == 3 * BATCHES
    assert resumed.losses == whole.losses[BATCHES:]


def test_a_strategy_for_several_processes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # else it sets all later tests' threads
    try:
        with pytest.raises(RuntimeError, match="not know of the other processes"):
            fitted(tmp_path, 1, strategy="ddp")
    finally:
        distributed.destroy_process_group()
