"""The contents of an image as SPDX 2.3."""
import hashlib
import json
import re
import uuid

import debian
import licenses
import staging

NONE = "NOASSERTION"


def identifier(kind, text):
    """Legal in SPDX, and different for different texts."""
    readable = re.sub(r"[^A-Za-z0-9.]", "-", text)[-60:].strip("-")
    return f"SPDXRef-{kind}-{readable}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def file_identifier(path):
    return identifier("File", path)


def package_identifier(name):
    return identifier("Package", name)


def verification_code(hashes):
    """SPDX 2.3, 7.9: of the files of a package."""
    return {"packageVerificationCodeValue": hashlib.sha1("".join(sorted(hashes)).encode()).hexdigest()}


def file_of(path, entry):
    program = entry.data.startswith(b"\x7fELF")
    return {
        "SPDXID": file_identifier(path),
        "fileName": f"./{path}",
        "fileTypes": ["BINARY" if program else "TEXT"],
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(entry.data).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(entry.data).hexdigest()},
        ],
        "licenseConcluded": NONE,
        "licenseInfoInFiles": [NONE],
        "copyrightText": NONE,
    }


def with_files(package, files):
    """A package of which these files are in the image; none: only parts of it are compiled in."""
    package["filesAnalyzed"] = bool(files)
    if files:
        hashes = [checksum["checksumValue"] for file in files for checksum in file["checksums"]
                  if checksum["algorithm"] == "SHA1"]
        package["packageVerificationCode"] = verification_code(hashes)
        package["licenseInfoFromFiles"] = [NONE]
    return package


def debian_package(name, package, found, files):
    source = re.match(r"(\S+) \((\S+)\)", package.fields["Source"])
    described = {
        "SPDXID": package_identifier(name),
        "name": package.name,
        "versionInfo": package.version,
        "supplier": f'Person: {package.fields["Maintainer"]}',
        "downloadLocation": NONE,
        "homepage": package.fields["Homepage"] or NONE,
        "sourceInfo": f"Debian source package {source[1]} {source[2]}",
        "licenseConcluded": NONE,
        "licenseDeclared": found.declared or NONE,
        "copyrightText": NONE,
        "comment": "The image has only some files of this package." if files else
                   "Parts of this package are compiled into programs of the image.",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{package.name}@{package.version.replace('+', '%2B')}"
                                f"?arch={package.architecture}&distro={debian.release()}",
        }],
    }
    if found.others:
        described["licenseComments"] = ("The copyright file names these licences, also of files that are not "
                                        f'in the image: {", ".join(found.others)}.')
    return with_files(described, files)


def own_package(identity, name, version, files):
    return with_files({
        "SPDXID": identity,
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: The mgpu Authors",
        "downloadLocation": NONE,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "Copyright The mgpu Authors",
    }, files)


def relationship(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def document(image, tree, digest, version, created):
    """`digest` is that of the image."""
    files = {path: file_of(path, tree.entries[path]) for path in tree.files()}
    found = {name: licenses.of(package) for name, package in tree.packages.items()}
    of_package = {}
    for path in files:
        of_package.setdefault(tree.entries[path].package, []).append(path)
    whole, own = "SPDXRef-Image", package_identifier(staging.OWN)
    packages = [own_package(whole, image["name"], version, list(files.values()))]
    packages[0]["primaryPackagePurpose"] = "CONTAINER"
    packages[0]["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest.split(":")[1]}]
    packages.append(own_package(own, staging.OWN, version, [files[path] for path in of_package[staging.OWN]]))
    for name, package in sorted(tree.packages.items()):
        packages.append(debian_package(name, package, found[name],
                                       [files[path] for path in of_package.get(name, [])]))
    extracted = {}
    for each in found.values():
        extracted |= each.extracted
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f'{image["name"]}-{version}',
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "creationInfo": {"created": created, "creators": ["Organization: The mgpu Authors",
                                                          f"Tool: mgpu-images-{version}"]},
        "documentDescribes": [whole],
        "packages": packages,
        "files": list(files.values()),
        "hasExtractedLicensingInfos": [
            {"licenseId": key, "name": name, "extractedText": text}
            for key, (name, text) in sorted(extracted.items())],
        "relationships": relationships(tree, whole, own, of_package),
    }


def relationships(tree, whole, own, of_package):
    related = [relationship("SPDXRef-DOCUMENT", "DESCRIBES", whole)]
    for name in [staging.OWN, *sorted(tree.packages)]:
        identity = own if name == staging.OWN else package_identifier(name)
        if name in of_package:
            related.append(relationship(whole, "CONTAINS", identity))
        for path in of_package.get(name, []):
            related.append(relationship(identity, "CONTAINS", file_identifier(path)))
    names = {path.rsplit("/", 1)[1]: path for path in tree.files() if "/" in path}
    for path, needed in sorted(tree.needed.items()):
        for name in needed:
            related.append(relationship(file_identifier(path), "DYNAMIC_LINK", file_identifier(names[name])))
    for path, compiled in sorted(tree.compiled.items()):
        kind = "STATIC_LINK" if path in tree.static else "GENERATED_FROM"
        for name in compiled:
            related.append(relationship(file_identifier(path), kind, package_identifier(name)))
    return related


def as_text(value):
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
