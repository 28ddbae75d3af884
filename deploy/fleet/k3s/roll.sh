#!/bin/sh
# Gives one node its partition, or another version, or another section, as a trial: keeps both, or
# puts back what was there. plan.yaml runs it on each node of a k3s or RKE2 cluster. It is in the
# Secret of the Plan, beside section.yaml, and runs in the host's mount namespace. With version and
# section in place already, it changes nothing.
#
#     roll.sh FOLDER    section.yaml is in FOLDER
set -eu

address=https://releases.example/node-partition
version=0.1.0-1
# Of the package, from SHA256SUMS of the release.
sum=0000000000000000000000000000000000000000000000000000000000000000
trial=15m

# A folder in place of the node, for the test.
root=${NODE_PARTITION_ROOT-}
section=$1/section.yaml
file=$root/etc/kubernetes/node-partition.yaml
trial_file=$root/run/node-partition/trial.yaml
folder=$root/var/cache/node-partition
monitor=$root/usr/bin/partition-monitor

# apt-get waits where another program uses dpkg, as unattended-upgrades does, and where it loads
# packages. needrestart would restart other services.
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt() { apt-get -q -y -o DPkg::Lock::Timeout=600 "$@"; }
put() {
	apt -o "Dir::Cache::Archives=$folder/" -o DPkg::Options::=--force-confold install \
		--no-install-recommends --no-remove --allow-downgrades --reinstall "$1"
}

refuse() { echo "refused, and nothing was changed: $1" >&2; exit 3; }

installed() {
	dpkg-query -W -f '${db:Status-Status} ${Version}' node-partition 2>/dev/null | sed -n 's/^installed //p'
}
before=$(installed)
new_section=yes
if cmp -s "$section" "$file"; then new_section=; fi
new_package=yes
[ "$before" != "$version" ] || new_package=
if [ -z "$new_section$new_package" ]; then echo "nothing to do"; exit 0; fi

[ ! -e "$trial_file" ] || refuse "a trial runs: partition-monitor try --end, or keep"
[ -n "$before" ] || [ ! -e "$file" ] || refuse "$file is there, and the package is not: it would apply at once"
[ -z "$before" ] || [ ! -e "$file" ] || [ -z "$new_section" ] || [ -z "$new_package" ] ||
	refuse "version and section would both change: roll the package first, and then the section"
mkdir -p "$folder"
kept=$folder/kept.deb
if [ -n "$new_package" ]; then
	[ -z "$before" ] || [ "$(dpkg-deb -f "$kept" Version 2>/dev/null)" = "$before" ] ||
		refuse "version $before is installed, and $kept, which the way back needs, is not its package"
	package=$folder/new.deb
	curl -fsSL --retry 5 -o "$package" "$address/node-partition_${version}_$(dpkg --print-architecture).deb"
	echo "$sum  $package" | sha256sum -c - >/dev/null || refuse "$package has another sum"
	[ "$(dpkg-deb -f "$package" Version)" = "$version" ] || refuse "$package is not version $version"
	dpkg-deb -x "$package" "$folder/unpacked"
	judge=$folder/unpacked/usr/bin/partition-monitor
else
	judge=$monitor
fi
judged=0
"$judge" validate "--root=${root:-/}" "$section" || judged=$?
rm -rf "$folder/unpacked"
[ "$judged" = 0 ] || refuse "the section is not valid"

old_section=
if [ -e "$file" ]; then old_section=$folder/section-before.yaml; cp -p "$file" "$old_section"; fi
settings=
for path in "$root/etc/default/node-partition" "$root/var/lib/node-partition"; do
	[ ! -e "$path" ] || settings=yes
done

# back puts back what was there, and says what differs then. Each step is tried, whatever the one
# before it gave.
back() {
	trap - EXIT
	set +e
	if [ -e "$trial_file" ]; then "$monitor" try --end; fi
	if [ -z "$old_section" ]; then
		rm -f "$file"
	elif ! cmp -s "$old_section" "$file"; then
		cp -p "$old_section" "$file.new" && mv "$file.new" "$file"
	fi
	if [ -n "$new_package" ]; then
		if [ -n "$before" ]; then
			put "$kept"
		elif [ -n "$settings" ]; then
			apt remove node-partition
		else
			apt purge node-partition
		fi
	fi
	differs=
	[ "$(installed)" = "$before" ] || differs="$differs; the package is another one"
	[ ! -e "$trial_file" ] || differs="$differs; the trial goes on until its end"
	if [ -n "$old_section" ]; then
		cmp -s "$old_section" "$file" || differs="$differs; the section differs"
		"$monitor" status --wait --timeout=5m >/dev/null || differs="$differs; the partition of before is not active"
	else
		[ ! -e "$file" ] || differs="$differs; a section is there"
	fi
	if [ -n "$differs" ]; then echo "the node is NOT as before${differs}" >&2; exit 4; fi
	echo "package and section are as before" >&2
	exit 1
}
trap back EXIT
trap 'exit 143' HUP INT TERM

[ -z "$new_package" ] || put "$package"
[ -z "$new_section" ] || "$monitor" try "$section" "--for=$trial"
"$monitor" status --wait --timeout=5m
"$monitor" check
[ -z "$new_section" ] || "$monitor" keep

trap - EXIT
[ -z "$new_package" ] || cp "$package" "$kept"
echo "kept: version $version, and the section"
