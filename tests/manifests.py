"""Manifests as a forger would write them."""

import json

from sbeed.storage import tensors


def forge(path, **changes):
    """Say something else in a manifest, and seal it anew; what no seal is made of, NaN, is said in an unsealed one."""
    manifest = {**json.loads(path.read_text()), **changes}
    manifest.pop(tensors.SEAL, None)
    try:
        tensors.write_manifest(path.parent, manifest)
    except ValueError:
        path.write_text(json.dumps(manifest, indent=1))
