#!/bin/sh
# Runs inside the new root (chroot): packs the lab's initial RAM disk. initramfs-tools is not used:
# its udev and its scripts cost 5 s of a boot under software emulation, and the lab knows its own
# disks.
set -e
kernel=$(ls /lib/modules)
work=$(mktemp -d)
cd "$work"
mkdir -p bin dev proc sys newroot modules
cp /bin/busybox bin/busybox
cp /tmp/lab/initrd/init init
chmod 755 init
# Built-in modules print "builtin", modules print "insmod PATH".
for module in virtio_pci virtio_blk crc32c_generic ext4; do
	modprobe -S "$kernel" --show-depends "$module" 2>/dev/null || true
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >list
: >modules/order
while read -r path; do
	name=$(basename "$path" .xz)
	case $path in
	*.xz) xz -dc "$path" >"modules/$name" ;;
	*) cp "$path" "modules/$name" ;;
	esac
	echo "/modules/$name" >>modules/order
done <list
rm list
find . | LC_ALL=C sort | cpio --quiet -o -H newc >/tmp/lab/initrd.img
cp "/boot/vmlinuz-$kernel" /tmp/lab/kernel
cd /
rm -rf "$work"
