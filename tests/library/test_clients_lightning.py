"""Inside Lightning: automatic and manual optimisation, one process and two."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from processes import in_two_processes

pl = pytest.importorskip("pytorch_lightning", reason="of the extra `clients`")

from adamqlr.torch import AdamQLR, Categorical, Objective  # noqa: E402

pytestmark = [
    # Advice on loading and logging, and Lightning's use of what torch is to drop.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),
]
X = torch.randn(32, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X[:, :3].argmax(1)
STEPS = 4


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        self.criterion = nn.CrossEntropyLoss()

    def training_step(self, batch, _):
        inputs, targets = batch
        return self.criterion(self.net(inputs), targets)

    def configure_optimizers(self):
        return AdamQLR(self.parameters()).watch(self.net, self.criterion)


class ManualClassifier(Classifier):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, index))
        optimizer.step()


class Evaluated(Classifier):
    """Validated at the average of its iterates."""

    def validation_step(self, batch, _):
        self.validated = [param.detach().clone() for param in self.parameters()]

    def on_validation_start(self):
        self.optimizers().optimizer.eval()

    def on_validation_end(self):
        self.optimizers().optimizer.train()

    def val_dataloader(self):
        return DataLoader(TensorDataset(X, Y), batch_size=32)


def fitted(model, batch, folder=None, checkpoint=None, **options):
    options = {"max_epochs": STEPS, "devices": 1} | options
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    inputs = X.to(model.net[0].weight.dtype)
    loader = DataLoader(TensorDataset(inputs, Y), batch_size=batch)
    trainer.fit(model, loader, ckpt_path=checkpoint)
    if folder is not None:
        trainer.save_checkpoint(folder / "last.ckpt")
    return model, trainer.optimizers[0].info


def by_hand(**options):
    model = Classifier()
    optimiser = AdamQLR(model.parameters(), **options)
    for _ in range(STEPS):
        optimiser.step(Objective(model.net, Categorical(), X, Y))
    return model, optimiser.info, optimiser


def assert_same(found, expected, tolerance=1e-5):
    (model, info), (other, other_info, *_) = found, expected
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    assert info.loss == pytest.approx(other_info.loss, rel=tolerance)
    assert info.slope == pytest.approx(other_info.slope, rel=10 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Classifier, ManualClassifier])
def test_the_trainer_makes_the_steps_of_the_objective(kind):
    assert_same(fitted(kind(), 32), by_hand())


@pytest.mark.slow
def test_validation_may_be_of_the_average_of_the_iterates():
    found = fitted(Evaluated(), 32, num_sanity_val_steps=0)
    expected = by_hand()
    assert_same(found, expected)
    expected[2].eval()
    for a, b in zip(found[0].validated, expected[0].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_accumulation_equals_the_joined_batch():
    assert_same(fitted(Classifier(), 8, accumulate_grad_batches=4), by_hand())


@pytest.mark.slow
def test_clipping_keeps_the_slope_of_the_loss():
    clip = lambda params: nn.utils.clip_grad_norm_(params, 0.1)
    found = fitted(Classifier(), 32, gradient_clip_val=0.1)
    assert_same(found, by_hand(clip=clip))


@pytest.mark.slow
def test_clipping_by_value_is_refused_with_the_cure():
    options = {"gradient_clip_val": 0.001, "gradient_clip_algorithm": "value"}
    with pytest.raises(RuntimeError, match="clip=lambda params"):
        fitted(Classifier(), 32, **options)


@pytest.mark.slow
def test_bfloat16_trains():
    model = Classifier().float()
    _, info = fitted(model, 32, precision="bf16-mixed", max_epochs=12)
    assert info.loss < 0.8 * by_hand()[1].loss


@pytest.mark.slow
def test_a_checkpoint_goes_on_bit_for_bit(tmp_path):
    whole, info = fitted(Classifier(), 16)
    fitted(Classifier(), 16, folder=tmp_path, max_epochs=2)
    again, info_again = fitted(Classifier(), 16, checkpoint=tmp_path / "last.ckpt")
    assert_same((again, info_again), (whole, info), tolerance=0)


def work(rank):
    found = []
    for kind in (Classifier, ManualClassifier):
        model, info = fitted(kind(), 16, strategy="ddp", devices=2)
        found.append(([param.detach() for param in model.parameters()], info))
    return found


@pytest.mark.slow
def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    model, info, _ = by_hand()
    for found in in_two_processes(work, tmp_path):
        for params, their_info in found:
            for a, b in zip(params, model.parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
            assert their_info.loss == pytest.approx(info.loss, rel=1e-5)
            assert their_info.slope == pytest.approx(info.slope, rel=1e-5)
