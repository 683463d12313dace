"""Pictures of a store's report for the README, in headless Chromium.

    python benchmarks/screenshots.py STORE [--output docs/images]

Writes the overview (light), the task with most algorithms (dark), and the same on a
telephone. Needs `chromium`; pictures are of 256 colours, to stay small.
"""

import argparse
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from qlrstudy.report.contents import contents
from qlrstudy.report.page import html

FLAGS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def shoot(browser: Browser, address: str, size: tuple[int, int], scheme: str) -> bytes:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("path.mark")
    picture = page.screenshot()
    context.close()
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path, metavar="STORE")
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("no chromium: install it, then run this again")
    options.output.mkdir(parents=True, exist_ok=True)
    found = contents(options.store)
    largest = max(
        (part.section for part in found.parts), key=lambda part: len(part.groups)
    ).key
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "index.html"
        path.write_text(html(found), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for name, view, size, scheme in (
            ("report-overview", "overview", (1280, 860), "light"),
            ("report-task", largest, (1280, 1120), "dark"),
            ("report-telephone", largest, (390, 844), "light"),
        ):
            picture = shoot(browser, f"{path.as_uri()}#{view}", size, scheme)
            image = Image.open(io.BytesIO(picture)).convert("RGB")
            image = image.quantize(256, Image.Quantize.MAXCOVERAGE)
            image.save(options.output / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
