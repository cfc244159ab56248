"""Take pictures of every page, and list what does not fit: `website/screenshots.py SITE OUT`."""

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

WIDTHS = (400, 1200, 1350)
SCHEMES = ("light", "dark")
# Programs may scroll; pages, tables, formulas and commands may not, and no flag is broken.
CUT = """() => [
  ...[...document.querySelectorAll("html, math, .md-typeset__scrollwrap, .language-sh code")]
    .filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth),
  ...[...document.querySelectorAll(".word")].filter((part) => part.getClientRects().length > 1),
].map((part) => part.textContent.trim().slice(0, 60))"""


def main(site: Path, out: Path) -> None:
    """Write OUT/WIDTH-SCHEME/PAGE.png of every page, and print what does not fit."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for width in WIDTHS:
            for scheme in SCHEMES:
                viewport: Any = {"width": width, "height": 900}
                page = browser.new_page(viewport=viewport, color_scheme=scheme)
                for file in sorted(set(site.rglob("*.html")) - {site / "404.html"}):
                    page.goto(file.resolve().as_uri())
                    name = "-".join(file.relative_to(site).with_suffix(".png").parts)
                    page.screenshot(path=out / f"{width}-{scheme}" / name, full_page=True)
                    for text in page.evaluate(CUT):
                        print(f"{width} px, {file.relative_to(site)}: {text!r}")
                page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
