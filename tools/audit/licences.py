"""`python -m tools.audit.licences`: write docs/licences.md, the licences of what ships.

They come from the metadata of the installed packages, which are those of the locks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/licences.md"
PIN = re.compile(r"^([a-z0-9-]+)==", re.MULTILINE)
# Licences that require only that their text accompanies the code.
PERMISSIVE = frozenset({"Apache-2.0", "BSD-3-Clause", "MIT", "PSF-2.0", "curl"})
# Other licences that may ship, and what they require.
COPYLEFT = {
    "MPL-2.0": "changes to its own files must be published; nothing else is touched",
    "LGPL-3.0-or-later": "a library beside others, which anybody may exchange",
}
# Licences in the words of older metadata.
IN_WORDS = {"Apache License 2.0": "Apache-2.0", "Dual License": "Apache-2.0 OR BSD-3-Clause"}
# Licences of the libraries in pycurl's wheel, by the beginning of the file's name.
LIBRARIES = {
    "libbrotlicommon": "MIT",
    "libbrotlidec": "MIT",
    "libcom_err": "MIT",
    "libcrypto": "Apache-2.0",
    "libcurl": "curl",
    "libgssapi_krb5": "MIT",
    "libidn2": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libk5crypto": "MIT",
    "libkrb5": "MIT",
    "libkrb5support": "MIT",
    "libnghttp2": "MIT",
    "libnghttp3": "MIT",
    "libngtcp2": "MIT",
    "libngtcp2_crypto_ossl": "MIT",
    "libpsl": "MIT",
    "libsfparse": "MIT",
    "libssh2": "BSD-3-Clause",
    "libssl": "Apache-2.0",
    "libunistring": "LGPL-3.0-or-later OR GPL-2.0-or-later",
}


class Part(NamedTuple):
    name: str
    licence: str  # an expression of SPDX

    @property
    def is_permissive(self) -> bool:
        """Whether at least one of the alternative licences is permissive."""
        return any(set(each.split(" AND ")) <= PERMISSIVE for each in self.licence.split(" OR "))

    @property
    def meaning(self) -> str:
        """What a licence that is not permissive requires; raises `KeyError` if it is unknown."""
        if self.is_permissive:
            return ""
        known = [COPYLEFT[each] for each in self.licence.split(" OR ") if each in COPYLEFT]
        if not known:
            raise KeyError(f"{self.name} is under {self.licence}: look at it, then list it here.")
        return known[0]


def licence_of(package: str) -> str:
    """The licence in the package's metadata."""
    about: Any = metadata.metadata(package)
    said = about.get("License-Expression") or about.get("License")
    return IN_WORDS.get(said, str(said))


def pinned(lock: str) -> list[str]:
    return PIN.findall((ROOT / lock).read_text())


def parts(packages: list[str]) -> list[Part]:
    return [Part(name, licence_of(name)) for name in packages]


def bundled() -> list[str]:
    """The libraries in the installed wheel of pycurl, by the beginnings of their names."""
    files = metadata.files("pycurl") or []
    libraries = (path.name for path in files if path.parent.name in ("pycurl.libs", ".dylibs"))
    return sorted({re.split(r"[-.]", name)[0] for name in libraries})


def of_typescript() -> list[Part]:
    """The run-time dependencies of the TypeScript client."""
    lock = json.loads((ROOT / "clients/typescript/package-lock.json").read_text())
    return [
        Part(path.removeprefix("node_modules/"), about["license"])
        for path, about in sorted(lock["packages"].items())
        if path and not about.get("dev")
    ]


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    plain = pinned("requirements.txt")
    more = [name for name in pinned("requirements-boto3.txt") if name not in plain]
    yield "# Licences of what ships"
    yield ""
    yield (
        "Written by `make documents` from the metadata of the locked packages; a test compares. "
        "Fanfold itself is [MIT](../LICENSE)."
    )
    yield from _list("The asset of the functions: `requirements.txt`", parts(plain))
    yield from _list("With `transport=boto3` also: `requirements-boto3.txt`", parts(more))
    libraries = [Part(name, licence) for name, licence in LIBRARIES.items()]
    yield from _list("Libraries in the wheel of pycurl, by their sources", libraries)
    yield ""
    yield (
        "Those under the LGPL are unchanged files of their own in `pycurl.libs`, which libcurl "
        "loads. Deploying the asset to one's own account passes nothing on. Those who give the "
        "asset itself to others pass these two on with their licence, as the LGPL asks."
    )
    yield from _list("The TypeScript client: `dependencies` of its package", of_typescript())
    yield ""
    yield "## The Python wheel"
    yield ""
    yield (
        "It holds only Fanfold's own code and the locks. pip installs the packages of extras; uv "
        "those of the asset, when an app is synthesized."
    )


def _list(title: str, found: list[Part]) -> Iterator[str]:
    by_licence: dict[str, list[str]] = {}
    for part in found:
        told = f"{part.licence} ({part.meaning})" if part.meaning else part.licence
        by_licence.setdefault(told, []).append(part.name)
    yield from ("", f"## {title}", "")
    yield from (f"* {told}: {', '.join(names)}" for told, names in by_licence.items())


if __name__ == "__main__":
    PAGE.write_text(page())
