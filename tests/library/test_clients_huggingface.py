"""Inside Hugging Face's `Trainer`: two lines change, and the steps are the same."""

import pytest
import torch
from torch import nn

pytest.importorskip("transformers", reason="of the extra `clients`")

from accelerate import FullyShardedDataParallelPlugin  # noqa: E402 - after the check
from accelerate.utils import DistributedType  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import (  # noqa: E402
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from adamqlr.torch import AdamQLR, Categorical, Objective  # noqa: E402
from adamqlr.torch.huggingface import StepSizes  # noqa: E402
from processes import in_two_processes  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # What these packages say of themselves and of a machine without accelerator.
    pytest.mark.filterwarnings("ignore"),
]
STEPS = 3
TOKENS = torch.randint(0, 16, (8, 12), generator=torch.Generator().manual_seed(0))
LABELS = TOKENS.masked_fill(torch.arange(12) > 9, -100)
TEXTS = [{"input_ids": ids, "labels": y} for ids, y in zip(TOKENS, LABELS, strict=True)]


def config(dropout=0.0):
    return GPT2Config(
        vocab_size=16,
        n_positions=12,
        n_embd=16,
        n_layer=1,
        n_head=2,
        num_labels=3,
        pad_token_id=0,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
    )


def language_model(dropout=0.0):
    torch.manual_seed(1)
    return GPT2LMHeadModel(config(dropout))


def make_trainer(
    folder, model, loss=None, data=TEXTS, evaluated=None, callbacks=None, **arguments
):
    arguments = {
        "max_steps": STEPS,
        "per_device_train_batch_size": 8,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "logging_steps": 1,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
    } | arguments
    optimiser = AdamQLR(model.parameters()).watch(model, loss or Categorical())
    return Trainer(
        model,
        TrainingArguments(str(folder), **arguments),
        train_dataset=data,
        eval_dataset=evaluated,
        optimizers=(optimiser, None),
        callbacks=callbacks,
    )


def by_hand(model, likelihood, **options):
    """The same steps with an objective of shifted logits and labels."""
    labels = LABELS[:, 1:]
    kept = (labels != -100).float()
    objective = Objective(
        model,
        likelihood,
        {"input_ids": TOKENS},
        labels,
        kept,
        outputs=lambda returned: returned.logits[:, :-1],
    )
    optimiser = AdamQLR(model.parameters(), **options)
    for _ in range(STEPS):
        optimiser.step(objective)
    return model, optimiser.info


def assert_close(model, other, tolerance):
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
        {"gradient_checkpointing": True},
    ],
    ids=["plain", "accumulation", "checkpointing"],
)
def test_the_trainer_makes_the_steps_of_the_objective(tmp_path, arguments):
    trainer = make_trainer(tmp_path, language_model(), **arguments)
    trainer.train()
    expected, info = by_hand(language_model(), Categorical())
    assert_close(trainer.model, expected, 2e-4)
    assert trainer.optimizer.optimizer.info.loss == pytest.approx(info.loss, rel=1e-4)


def test_bfloat16_makes_about_the_same_steps(tmp_path):
    trainer = make_trainer(tmp_path, language_model(), bf16=True)
    trainer.train()
    with torch.autocast("cpu", torch.bfloat16):
        _, info = by_hand(language_model(), Categorical())
    found = trainer.optimizer.optimizer.info
    assert found.loss == pytest.approx(info.loss, rel=1e-2)
    assert found.step_size == pytest.approx(info.step_size, rel=0.1)


def test_clipping_keeps_the_slope_of_the_loss(tmp_path):
    trainer = make_trainer(tmp_path, language_model(), max_grad_norm=0.1)
    trainer.train()
    # The trainer divides by the labels before they are shifted: 10, of which 9 count.
    clip = lambda params: nn.utils.clip_grad_norm_(params, 0.1 * 10 / 9)
    expected, info = by_hand(language_model(), Categorical(), clip=clip)
    assert_close(trainer.model, expected, 2e-4)
    assert trainer.optimizer.optimizer.info.slope == pytest.approx(info.slope, rel=1e-3)


def test_label_smoothing_is_named_to_the_optimiser(tmp_path):
    loss = Categorical(label_smoothing=0.1)
    trainer = make_trainer(tmp_path, language_model(), loss, label_smoothing_factor=0.1)
    trainer.train()
    assert_close(trainer.model, by_hand(language_model(), loss)[0], 2e-4)


def test_label_smoothing_that_it_does_not_know_of_is_refused(tmp_path):
    # While all classes are as likely, both losses have one gradient but for a factor.
    trainer = make_trainer(
        tmp_path, language_model(), label_smoothing_factor=0.1, max_steps=100
    )
    with pytest.raises(ValueError, match="label_smoothing"):
        trainer.train()


@pytest.mark.parametrize("evaluated", [None, TEXTS[:4]], ids=["plain", "evaluated"])
def test_a_checkpoint_goes_on_bit_for_bit(tmp_path, evaluated):
    options = {"save_strategy": "steps", "save_steps": 2, "max_steps": 4}
    options |= {"per_device_train_batch_size": 4, "evaluated": evaluated}
    if evaluated is not None:  # which ends each second step before it is saved
        options |= {"eval_strategy": "steps", "eval_steps": 2}
    whole = make_trainer(tmp_path / "whole", language_model(dropout=0.1), **options)
    whole.train()
    again = make_trainer(tmp_path / "again", language_model(dropout=0.1), **options)
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    assert again.state.global_step == 4
    assert_close(again.model, whole.model, 0)
    assert again.optimizer.optimizer.info == whole.optimizer.optimizer.info


def test_step_sizes_are_in_the_logs(tmp_path):
    trainer = make_trainer(tmp_path, language_model(), callbacks=[StepSizes()])
    trainer.train()
    lines = [line for line in trainer.state.log_history if "grad_norm" in line]
    assert len(lines) == STEPS
    last = trainer.optimizer.optimizer.info
    assert lines[-1]["step_size"] == last.step_size
    assert lines[-1]["damping"] == last.damping


def test_evaluation_between_steps_does_not_disturb(tmp_path):
    evaluating = make_trainer(
        tmp_path,
        language_model(),
        evaluated=TEXTS[:4],
        eval_strategy="steps",
        eval_steps=1,
    )
    evaluating.train()
    evaluating.optimizer.train()
    plain = make_trainer(tmp_path, language_model())
    plain.train()
    assert_close(evaluating.model, plain.model, 0)


def test_sequences_are_classified(tmp_path):
    torch.manual_seed(1)
    model = GPT2ForSequenceClassification(config())
    data = [{"input_ids": ids + (ids == 0), "labels": ids[0] % 3} for ids in TOKENS]
    trainer = make_trainer(tmp_path, model, data=data, max_steps=12)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert losses[-1] < 0.8 * losses[0]


def adapted():
    torch.manual_seed(1)
    lora = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["c_attn"])
    return get_peft_model(language_model(), lora)


def test_adapters_of_peft_are_trained(tmp_path):
    model = adapted()
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    trainer = make_trainer(tmp_path, model)
    trainer.train()
    expected, info = by_hand(adapted(), Categorical())
    assert trainer.optimizer.optimizer.info.loss == pytest.approx(info.loss, rel=1e-4)
    assert_close(model, expected, 2e-4)
    assert all(dict(model.named_parameters())[n].equal(p) for n, p in frozen.items())


def sharded_work(rank):
    config = {"version": 2, "transformer_layer_cls_to_wrap": ["GPT2Block"]}
    trainer = make_trainer(
        f"out{rank}",
        language_model(),
        per_device_train_batch_size=4,
        ddp_backend="gloo",
        fsdp=True,
        fsdp_config=config,
    )
    # accelerate has no such plugin for a CPU; what it does with one runs all the same.
    state = trainer.accelerator.state
    state.fsdp_plugin = FullyShardedDataParallelPlugin(**trainer.args.fsdp_plugin_args)
    state.distributed_type = DistributedType.FSDP
    trainer.is_fsdp_enabled = True
    trainer.train()
    params = [param.full_tensor().detach() for param in trainer.model.parameters()]
    trainer.accelerator.end_training()
    return params, trainer.optimizer.optimizer.info


def test_its_fsdp2_equals_one_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, info = by_hand(language_model(), Categorical())
    for params, their_info in in_two_processes(sharded_work, tmp_path):
        for a, b in zip(params, model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-4)
        assert their_info.loss == pytest.approx(info.loss, rel=1e-4)
