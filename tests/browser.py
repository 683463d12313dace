"""A real browser for pages, and what it has to complain of."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_FLAGS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium; without one the test is skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium: `apt-get install chromium`, or any other that has it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()


def listen(page: Page, complaints: list[str]) -> None:
    """Collect errors and warnings of a page's console, exceptions and dialogues."""
    page.on(
        "console",
        lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))


def cut_labels(page: Page) -> list[str]:
    """Texts of plots that do not lie within them."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main svg[role=application] text")]
        .filter((text) => {
          const [own, plot] = [text, text.ownerSVGElement].map((e) =>
            e.getBoundingClientRect());
          return own.left < plot.left - 1 || own.right > plot.right + 1
            || own.top < plot.top - 1 || own.bottom > plot.bottom + 1;
        }).map((text) => text.textContent)"""
    )
