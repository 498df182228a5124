"""Bills of materials in CycloneDX, from the parts that the licence check saw."""

from __future__ import annotations

from collections.abc import Sequence

from tests.release.licences import Part, Rules


class BillError(Exception):
    """A bill that its own schema refuses."""


def bill(name: str, version: str, parts: Sequence[Part], kind: str, by: Rules) -> str:
    """The bill of `name` as JSON: parts with version, licence, hash where there is one, and who needs whom.

    `kind` is the package registry's name in package URLs, `pypi` or `cargo`. Raises BillError where the
    schema of CycloneDX refuses it.
    """
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    whole = Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=name,
        licenses=[LicenseExpression("Apache-2.0")],
    )
    made = Bom()
    made.metadata.component = whole
    components = {
        (part.name, part.version): Component(
            name=part.name,
            version=part.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{kind}:{part.name}@{part.version}",
            purl=PackageURL(kind, None, part.name, part.version),
            licenses=[LicenseExpression(by.licence(part))],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
        )
        for part in parts
    }
    made.components.update(components.values())
    needed = {need for part in parts for need in part.needs}
    for part in parts:
        below = [component for (other, _), component in components.items() if other in part.needs]
        made.register_dependency(components[part.name, part.version], below)
    made.register_dependency(
        whole, [component for (other, _), component in components.items() if other not in needed]
    )
    text = JsonV1Dot6(made).output_as_string(indent=1)
    mistake = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if mistake is not None:
        raise BillError(f"{name}: {str(mistake).splitlines()[0]}")
    return f"{text}\n"
