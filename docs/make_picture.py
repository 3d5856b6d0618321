"""Make docs/report.png: the terminal output of a real ``gfxloop check``, as a picture.

In: gfxloop and what vLLM imports, installed for this Python, and Chromium (Debian's package ``chromium``). Out: the
PNG, replaced. Run it in the clone: ``.venv/bin/python docs/make_picture.py``. It must not draw what was not printed.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COMMAND = (
    "gfxloop check --subject pypi:0.28.0 --target gfx942 --target gfx1100 --target sm90 --target cpu "
    "--kernel fp8 --kernel torch_fp8 --kernel gfx1250_guard"
)
PICTURE = Path(__file__).parent / "report.png"
COLUMNS = 128
LINE_PX = 18
PADDING_PX = 14
WIDTH_PX = 1060
PAGE = f"""<!doctype html><meta charset="utf-8"><style>
body {{{{ margin: 0; padding: {PADDING_PX}px; background: {{background}}; color: {{foreground}}; }}}}
pre {{{{ margin: 0; font: 13px/{LINE_PX}px "DejaVu Sans Mono", monospace; }}}}
</style><pre>{{code}}</pre>"""


def main() -> None:
    """Run the command, lay its output out, and let Chromium take the picture."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        console = Console(record=True, width=COLUMNS, file=io.StringIO())
        console.print(Text(f"$ {COMMAND}", style="bold"))
        console.print(Text.from_ansi(printed(scratch)))
        lines = console.export_text(clear=False).count("\n")
        page = scratch / "page.html"
        page.write_text(console.export_html(theme=MONOKAI, code_format=PAGE, inline_styles=True), encoding="utf-8")
        take_picture(page, lines * LINE_PX + 2 * PADDING_PX, scratch / "profile")
    sys.stderr.write(f"{PICTURE}: {PICTURE.stat().st_size} bytes\n")


def printed(folder: Path) -> str:
    """What the command prints in ``folder``, with its colours."""
    command = [sys.executable, "-c", "from harness.cli import main; main()", *shlex.split(COMMAND)[1:]]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)
    return done.stdout.rstrip()


def take_picture(page: Path, height_px: int, profile: Path) -> None:
    """Render ``page`` in headless Chromium."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += [f"--user-data-dir={profile}", f"--window-size={WIDTH_PX},{height_px}", f"--screenshot={PICTURE}"]
    subprocess.run(["chromium", *options, page.as_uri()], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
