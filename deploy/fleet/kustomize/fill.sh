#!/bin/sh
# Makes a folder for "kubectl apply -k" from the base: with an image, its version and a section of
# yours.
#
#     fill.sh FOLDER IMAGE VERSION SECTION [REVISION]
#
#     fill.sh fleet REGISTRY/node-partition-installer@sha256:... v0.1.0 node-partition.yaml
#
# VERSION is the version of the image. Give another REVISION, a number, to roll again over nodes
# that have failed: with the same section, version and revision a roll takes up where it was.
set -eu

if [ $# -lt 4 ] || [ $# -gt 5 ]; then
	sed -n '2,/^set/s/^#$//; 2,/^set/s/^# //p' "$0" >&2
	exit 2
fi
folder=$1 image=$2 version=$3 section=$4 revision=${5-1}
fail() { echo "fill.sh: $1" >&2; exit 1; }
[ ! -e "$folder" ] || fail "$folder is there already: name another folder"
case $image in *[!A-Za-z0-9.:/@_-]* | '') fail "image $image: want a name with a tag or a digest" ;; esac
case $version in v[0-9]*) ;; *) fail "version $version: want one such as v0.1.0" ;; esac
case $version in *[!A-Za-z0-9.+~-]* | *[!A-Za-z0-9]) fail "version $version: want one such as v0.1.0" ;; esac
case $revision in *[!0-9]* | '') fail "revision $revision: want a number" ;; esac
[ -r "$section" ] || fail "$section: cannot be read"
[ -z "$(tail -c 1 "$section")" ] || fail "$section: want a newline at its end"
if LC_ALL=C grep -q '[[:cntrl:]]' "$section"; then fail "$section: has a tab or another control character"; fi

# A label has fewer characters to choose from.
label=$(printf %.63s "$version" | tr '+~' '__' | sed 's/[-._]*$//')
hash=$(sha256sum "$section" | cut -c -12)
# The section as a string of JSON. What sed replaces is escaped for it, too.
text=$(sed 's/\\/\\\\/g; s/"/\\"/g; s/$/\\n/' "$section" | tr -d '\n' | sed 's/[\\&|]/\\&/g')

cp -R "$(dirname "$0")" "$folder"
rm "$folder/fill.sh"
was=$(sed -n 's/^  name: node-partition-section-//p' "$folder/base/configmap.yaml")
find "$folder" -name '*.yaml' -exec sed -i \
	-e "s|registry.example/node-partition-installer:v0.0.0|$image|g" \
	-e "/app\.kubernetes\.io\/version/s|v0\.0\.0|$label|" \
	-e "s|v0\.0\.0|$version|g" \
	-e "s|$was|$hash|g" \
	-e "s|--revision=1\"|--revision=$revision\"|" \
	-e "s|^  section.yaml: .*|  section.yaml: \"$text\"|" {} +
echo "$folder is written. Then: kubectl apply -k $folder/roll"
