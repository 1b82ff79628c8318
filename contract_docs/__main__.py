"""`python -m contract_docs` writes the public documents of today's contract.

With `--freeze`, also as those of the last release, which later ones must not break.
"""

from __future__ import annotations

import sys

from contract_docs import files

if __name__ == "__main__":
    for path, text in files.all_texts(freeze="--freeze" in sys.argv[1:]).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
