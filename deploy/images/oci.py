"""Images as an OCI image layout and as a docker archive, byte for byte the same for the same content."""
import gzip
import hashlib
import io
import json
import os
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
# As in most images, since NVIDIA's runtime adds programs to these folders.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def member(path, mode, epoch, user=0):
    info = tarfile.TarInfo(path)
    info.mode, info.mtime, info.uid, info.gid = mode, epoch, user, user
    return info


def tar_of(files, epoch):
    """An archive of files only, {path: bytes}, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        folders = set()
        for path, data in files.items():
            parts = path.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    info = member(folder, 0o755, epoch)
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
            info = member(path, 0o644, epoch)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def layer_of(tree, epoch):
    """The archive of a tree of staging.py."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in tree.paths():
            entry = tree.entries[path]
            info = member(path, entry.mode, epoch, entry.user)
            if entry.folder:
                info.type = tarfile.DIRTYPE
            elif entry.target:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            else:
                info.size = len(entry.data)
            tar.addfile(info, io.BytesIO(entry.data))
    return out.getvalue()


def compressed(data):
    """gzip without a name and a time."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(data)
    return out.getvalue()


class Image:
    """An image with one layer."""

    def __init__(self, tree, reference, labels, process, epoch):
        """`process` has the members Entrypoint and User of the configuration."""
        self.reference = reference
        self.labels = labels
        self.epoch = epoch
        self.layer = layer_of(tree, epoch)
        self.config = as_json({
            "architecture": tree.architecture,
            "os": "linux",
            "created": labels["org.opencontainers.image.created"],
            "config": {**process, "Labels": labels, "WorkingDir": "/",
                       "Env": [f"PATH={SEARCH_PATH}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(self.layer)}"]},
            "history": [{"created": labels["org.opencontainers.image.created"],
                         "created_by": "deploy/images/build.sh"}],
        })
        self._blobs = None

    def blobs(self):
        """The manifest is the last: [(media type, bytes)]."""
        if self._blobs is None:
            layer = compressed(self.layer)
            manifest = as_json({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": descriptor(CONFIG, self.config),
                "layers": [descriptor(LAYER, layer)],
                "annotations": self.labels,
            })
            self._blobs = [(LAYER, layer), (CONFIG, self.config), (MANIFEST, manifest)]
        return self._blobs

    def digest(self):
        """The digest by which a registry and containerd know the image."""
        return f"sha256:{sha256(self.blobs()[-1][1])}"

    def layout(self):
        """The files of an OCI image layout: {path: bytes}."""
        manifest = self.blobs()[-1][1]
        config = json.loads(self.config)
        entry = descriptor(MANIFEST, manifest)
        entry["platform"] = {"architecture": config["architecture"], "os": "linux"}
        # The first names the image for ctr, the second is the tag for other tools.
        entry["annotations"] = {"io.containerd.image.name": self.reference,
                                "org.opencontainers.image.ref.name": self.reference.rsplit(":", 1)[1]}
        files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}),
                 "index.json": as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})}
        blobs = {f"blobs/sha256/{sha256(data)}": data for _, data in self.blobs()}
        return files | dict(sorted(blobs.items()))

    def docker_archive(self):
        """What `docker load` reads: {path: bytes}."""
        name = sha256(self.config)
        manifest = [{"Config": f"{name}.json", "RepoTags": [self.reference],
                     "Layers": [f"{sha256(self.layer)}/layer.tar"]}]
        return {"manifest.json": as_json(manifest), f"{name}.json": self.config,
                f"{sha256(self.layer)}/layer.tar": self.layer}

    def write(self, folder, name):
        """NAME.oci, NAME.oci.tar and NAME.docker.tar."""
        for path, data in self.layout().items():
            write_file(f"{folder}/{name}.oci/{path}", data)
        write_file(f"{folder}/{name}.oci.tar", tar_of(self.layout(), self.epoch))
        write_file(f"{folder}/{name}.docker.tar", tar_of(self.docker_archive(), self.epoch))


def descriptor(media_type, data):
    return {"mediaType": media_type, "digest": f"sha256:{sha256(data)}", "size": len(data)}


def write_file(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
