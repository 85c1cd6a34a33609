from __future__ import annotations

import pytest

from rowcall.cli.doctor.mounts import file_system_of, is_network, kind_at

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /srv rw,relatime shared:2 - nfs4 host:/export rw,vers=4.2
31 30 8:2 / /srv/local rw shared:3 master:1 - xfs /dev/sdb1 rw
32 22 0:30 / /mnt/a\040b rw - fuse.sshfs me@host:/ rw
33 22 0:31 / /tmp rw - ext4 /dev/sdc1 rw
34 33 0:32 / /tmp rw - tmpfs tmpfs rw
a line that is cut
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/app.db", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/app.db", "nfs4"),
        ("/srvother/app.db", "ext4"),
        ("/srv/local/deep/app.db", "xfs"),
        ("/mnt/a b/app.db", "fuse.sshfs"),
        ("/tmp/app.db", "tmpfs"),
    ],
)
def test_the_nearest_and_latest_mount_counts(path: str, kind: str) -> None:
    assert kind_at(path, MOUNTS) == kind


def test_no_mount_no_answer() -> None:
    assert kind_at("/srv/app.db", "") is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "virtiofs", "ceph"])
def test_network_file_systems_are_known(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs"])
def test_local_file_systems_are_not_network_ones(kind: str) -> None:
    assert not is_network(kind)


def test_this_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.cli.doctor.mounts._MOUNTS", "/nowhere/mountinfo")
    assert file_system_of("/") is None
