"""`python -m tools.contract_docs` writes the public documents of the contract."""

from __future__ import annotations

from tools.contract_docs import files

if __name__ == "__main__":
    for path, text in files.all_texts().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
