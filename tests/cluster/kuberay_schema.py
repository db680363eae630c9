"""Checks docs/cluster/kuberay.yaml against KubeRay's definition of a cluster: no unknown field, none of a wrong type.

    python tests/cluster/kuberay_schema.py ray.io_rayclusters.yaml

The definition is a file of KubeRay's Helm chart, or its address.
"""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path
from typing import Any

import jsonschema
import yaml

RECIPE = Path(__file__).parents[2] / "docs" / "cluster" / "kuberay.yaml"


def refuse_unknown_fields(schema: object) -> None:
    """Kubernetes drops fields that a definition does not have. Here they are errors."""
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for each in schema.values():
            refuse_unknown_fields(each)


def main(definition: str) -> int:
    address = definition if "://" in definition else Path(definition).absolute().as_uri()
    with urllib.request.urlopen(address) as answer:
        known: Any = yaml.safe_load(answer)
    recipe = yaml.safe_load(RECIPE.read_text())
    version = recipe["apiVersion"].rpartition("/")[2]
    schema = next(each for each in known["spec"]["versions"] if each["name"] == version)["schema"]["openAPIV3Schema"]
    refuse_unknown_fields(schema)
    # The fields of every Kubernetes object are not in the definition.
    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(recipe))
    for error in errors:
        print(f"{'.'.join(map(str, error.path))}: {error.message}")
    print(f"{RECIPE.name}: {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
