"""The file system that holds a file, if the kernel says so (Linux)."""

from __future__ import annotations

import os
import re

NETWORK_KINDS = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "ocfs2"),
    *("fuse.ceph", "fuse.cifs", "fuse.davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    *("fuse.vmhgfs-fuse", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"),
}
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")


def is_network(kind: str) -> bool:
    return kind in NETWORK_KINDS or kind.startswith(("nfs", "smb"))


def file_system_of(path: str) -> str | None:
    """Return the type of the file system that holds a file or folder, or None if it is unknown."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            return kind_at(os.path.realpath(path), mounts.read())
    except OSError:
        return None


def kind_at(path: str, mountinfo: str) -> str | None:
    """Return the type of the mount nearest above a real path, the last one if several are stacked.

    >>> kind_at("/srv/a b/app.db", r"29 1 0:26 / /srv/a\\040b rw shared:1 - nfs4 host:/ rw")
    'nfs4'
    """
    best, kind = "", None
    for line in mountinfo.splitlines():
        left, mark, right = line.partition(" - ")
        fields = left.split()
        if not mark or len(fields) < 5 or not right:
            continue
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4])
        if _is_above(point, path) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def _is_above(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(f"{point}/")
