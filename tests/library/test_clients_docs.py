"""`docs/clients.md`: each row of its table is a test, and each of its blocks runs."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from adamqlr.torch import AdamQLR, Categorical

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text()
ROWS = re.findall(r"^\| .* \| `(\w+\.py)::(\w+)` \|$", PAGE, re.MULTILINE)
BLOCKS = dict(re.findall(r"^## (.+?)\n\n```python\n(.*?)```", PAGE, re.DOTALL | re.M))


def test_every_row_names_a_test():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(lines) - 1 > 20  # all but the head


@pytest.mark.parametrize("file, name", ROWS)
def test_the_test_of_each_row_exists(file, name):
    tree = ast.parse((ROOT / "tests" / "library" / file).read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in names


INPUTS = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
PAIRS = torch.utils.data.TensorDataset(INPUTS, INPUTS[:, :3].argmax(1))
TOKENS = torch.randint(0, 16, (8, 12), generator=torch.Generator().manual_seed(0))


def make_net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def classifier():
    loader = torch.utils.data.DataLoader(PAIRS, batch_size=8)
    return {"model": make_net(), "loader": loader}


class TinyGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = make_net()

    def forward(self, inputs, targets):
        logits = self.net(inputs)
        return logits, functional.cross_entropy(logits, targets)


def language_model():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=16, n_positions=12, n_embd=16, n_layer=1, n_head=2
    )
    return transformers.GPT2LMHeadModel(config)


def huggingface(folder):
    model = language_model()
    import transformers

    from adamqlr.torch.huggingface import StepSizes

    args = transformers.TrainingArguments(
        str(folder), max_steps=2, report_to="none", use_cpu=True, disable_tqdm=True
    )
    return {
        "model": model,
        "args": args,
        "dataset": [{"input_ids": ids, "labels": ids} for ids in TOKENS],
        "Trainer": transformers.Trainer,
        "StepSizes": StepSizes,
    }


def adapters(folder):
    model, peft = language_model(), pytest.importorskip("peft")
    return {
        "model": model,
        "loader": [{"input_ids": TOKENS, "labels": TOKENS}] * 2,
        "get_peft_model": peft.get_peft_model,
        "LoraConfig": peft.LoraConfig,
    }


def accelerated(folder):
    accelerate = pytest.importorskip("accelerate")
    return classifier() | {"Accelerator": accelerate.Accelerator}


def lightning(folder):
    pl = pytest.importorskip("pytorch_lightning")
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    return classifier() | {"pl": pl, "trainer": trainer, "make_net": make_net}


SETTINGS = {
    "A plain loop": lambda folder: classifier(),
    "nanoGPT": lambda folder: classifier() | {"model": TinyGPT()},
    "Hugging Face": huggingface,
    "peft": adapters,
    "accelerate": accelerated,
    "Lightning": lightning,
}


def test_every_block_has_a_setting():
    assert set(BLOCKS) == set(SETTINGS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what the packages say of themselves
@pytest.mark.parametrize("heading", BLOCKS)
def test_the_block_runs(heading, tmp_path):
    names = {"torch": torch, "AdamQLR": AdamQLR, "Categorical": Categorical}
    names |= {"__name__": "page"} | SETTINGS[heading](tmp_path)
    exec(compile(BLOCKS[heading], heading, "exec"), names)


def test_without_transformers_the_callback_names_its_extra():
    code = "import sys; sys.modules['transformers'] = None; "
    code += "import adamqlr.torch.huggingface"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'adamqlr[clients]'" in run.stderr
