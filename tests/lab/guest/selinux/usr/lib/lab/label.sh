# Runs inside the new root (chroot), on a kernel that need not have SELinux. The policy labels
# plugins of CNI in /opt/cni alone, and the runtime may not follow a link there.
rm /opt/cni/bin
cp -r /usr/lib/cni /opt/cni/bin
setfiles -F /etc/selinux/default/contexts/files/file_contexts /
