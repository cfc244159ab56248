"""Make one HTML file of slides.md that needs no network: `website/slides.py build/slides.html`.

slides.md is in the format of Marp, so its program can read it too (`npx @marp-team/marp-cli
website/slides.md`, with a browser installed); this one needs only what the site needs.
"""

import base64
import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from markdown import markdown

HERE = Path(__file__).parent
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
BLOCK, INLINE = re.compile(r"\$\$(.+?)\$\$", re.DOTALL), re.compile(r"\$([^$\n]+)\$")
IMAGE = re.compile(r'src="([^"]+\.png)"')
LAYOUT = "slides-layout.html"


def main(out: Path) -> None:
    """Write the slides."""
    text = (HERE / "slides.md").read_text("utf-8")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(slides_html(text), "utf-8")


def slides_html(text: str) -> str:
    """Return the whole page: a section for each slide, with its images inside."""
    slides = FRONT_MATTER.sub("", text).split("\n---\n")
    sections = "\n".join(f"<section>{_slide(slide)}</section>" for slide in slides)
    return (HERE / LAYOUT).read_text("utf-8").replace("{{ slides }}", sections)


def _slide(text: str) -> str:
    formulas = BLOCK.sub(lambda match: convert(match[1].strip(), display="block"), text)
    formulas = INLINE.sub(lambda match: convert(match[1]), formulas)
    html = markdown(formulas, extensions=["fenced_code", "tables", "nl2br"])
    return IMAGE.sub(lambda match: f'src="{_image(HERE / match[1])}"', html)


def _image(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
