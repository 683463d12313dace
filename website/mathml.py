"""Formulas of the site as MathML, which browsers draw without a script or a network.

`pymdownx.arithmatex` finds them; this turns what it found into elements.
"""

from typing import Any
from xml.etree import ElementTree

from latex2mathml import converter
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor

# Those of |B| would grow to the height of what follows them.
_BARS = ("|", "&#x0007C;")


class _Formulas(Treeprocessor):
    """Replaces the text of every formula by its elements."""

    def run(self, root: ElementTree.Element) -> None:
        found = [e for e in root.iter() if e.get("class") == "arithmatex"]
        for element in found:
            text = (element.text or "").strip()
            # arithmatex marks them as LaTeX does: \( \) in a line, \[ \] by itself.
            display = "block" if text.startswith(r"\[") else "inline"
            formula = converter.convert_to_element(text[2:-2].strip(), display=display)
            for operator in formula.iter("mo"):
                if operator.text in _BARS:
                    operator.set("stretchy", "false")
            element.text = None
            element.append(formula)


class MathML(Extension):
    """What Markdown is told to load."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, D102 - Markdown's name
        md.registerExtension(self)
        md.treeprocessors.register(_Formulas(md), "mathml", 1)


def makeExtension(**options: Any) -> MathML:  # noqa: N802, D103 - likewise
    return MathML(**options)
