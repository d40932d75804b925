"""The lines of the user's guide that upload a model, as they are printed, and running them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.kit.cluster import Platform

ROOT = Path(__file__).resolve().parents[2]
#: the model that they name
MODEL = "uploaded-model"

UPLOAD = """\
set -eu
UPLOAD_SECRET=$(d8 k -n ai-demo get model uploaded-model -o jsonpath='{.status.upload.secretName}')
UPLOAD_URL=$(d8 k -n ai-demo get secret "$UPLOAD_SECRET" -o jsonpath='{.data.url}' | base64 -d)
UPLOAD_TOKEN=$(d8 k -n ai-demo get secret "$UPLOAD_SECRET" -o jsonpath='{.data.token}' | base64 -d)
"""
FILE = """\
curl -fS --progress-bar \\
  -H "Authorization: Bearer ${UPLOAD_TOKEN}" \\
  -T ./model.gguf \\
  "$UPLOAD_URL" | cat
"""
ARCHIVE = """\
curl -fS --progress-bar \\
  -H "Authorization: Bearer ${UPLOAD_TOKEN}" \\
  -T ./model-bundle.tar \\
  "$UPLOAD_URL?filename=model-bundle.tar" | cat
"""


def run(
    platform: Platform, namespace: str, lines: str, folder: Path, authority: Path
) -> subprocess.CompletedProcess[str]:
    """Run the lines in a folder, which is curl's home too, for a user who trusts the authority."""
    clients = platform.target.kubectl_binary.parent
    environment = {
        "PATH": f"{ROOT / 'bin'}:{clients}:{os.environ['PATH']}",
        "HOME": str(folder),
        "KUBECONFIG": str(platform.target.kubeconfig),
        "CURL_CA_BUNDLE": str(authority),
    }
    script = (UPLOAD + lines).replace("-n ai-demo", f"-n {namespace}")
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
