#!/bin/sh
# Installs the programs from an archive of a release below /usr/local and /etc/systemd, which are
# writable where /usr is not. It is the file /etc/node-partition/install.sh of machineconfig.yaml,
# and node-partition-install.service runs it at each boot, before the kubelet. With the version
# installed already, it changes nothing.
set -eu

address=https://releases.example/node-partition
version=0.1.0
# From SHA256SUMS of the release.
sum_amd64=0000000000000000000000000000000000000000000000000000000000000000
sum_arm64=0000000000000000000000000000000000000000000000000000000000000000

# A folder in place of the node, for the test.
root=${NODE_PARTITION_ROOT-}

record=$root/usr/local/share/node-partition/version
[ "$(cat "$record" 2>/dev/null)" != "$version" ] || exit 0

case $(uname -m) in
x86_64) arch=amd64 sum=$sum_amd64 ;;
aarch64) arch=arm64 sum=$sum_arm64 ;;
*) echo "$(uname -m): no release has programs for it" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
curl -fsSL --retry 5 -o "$work/archive" "$address/node-partition-$version-linux-$arch.tar.gz"
echo "$sum  $work/archive" | sha256sum -c - >/dev/null
tar -xzf "$work/archive" --strip-components=1 -C "$work"

# put SOURCE DESTINATION MODE replaces a file by a rename, so that a program that runs is never
# written to.
put() {
	mkdir -p "$root${2%/*}"
	cp "$work$1" "$root$2.new"
	chmod "$3" "$root$2.new"
	if command -v restorecon >/dev/null; then restorecon -F "$root$2.new"; fi
	sync "$root$2.new"
	mv -f "$root$2.new" "$root$2"
	if command -v restorecon >/dev/null; then restorecon -F "$root$2"; fi
}
sed -i 's|^ExecStart=/usr/bin/|ExecStart=/usr/local/bin/|' "$work/usr/lib/systemd/system/partition-monitor.service"
put /usr/bin/partition-monitor /usr/local/bin/partition-monitor 0755
put /usr/lib/systemd/system/partition-monitor.service /etc/systemd/system/partition-monitor.service 0644
# The generator is the last one: without it nothing is started. It is in /etc and not in /usr/local,
# which may be on a file system that is mounted after the generators have run.
put /usr/lib/systemd/system-generators/partition-generator /etc/systemd/system-generators/partition-generator 0755
mkdir -p "${record%/*}"
echo "$version" >"$record"

systemctl daemon-reload
systemctl start slices.target
# Not waited for: this may be a part of a boot.
systemctl --no-block try-restart partition-monitor.service
