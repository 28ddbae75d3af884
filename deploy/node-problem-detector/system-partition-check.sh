#!/bin/sh
# A custom plugin of node-problem-detector: exit status 0 if partition-monitor check finds no error,
# 1 if it finds one, with the first as the message, and 2 if that is unknown. It needs root, and the
# files of the node, so node-problem-detector has to run on the node itself and not in a container.

if ! command -v partition-monitor >/dev/null 2>&1; then
	echo "partition-monitor is not installed"
	exit 2
fi

found=$(partition-monitor check 2>&1)
status=$?
first=$(printf '%s\n' "$found" | sed -n 's/^error  *//p' | head -n 1)

case $status in
0)
	echo "partition-monitor check finds no error"
	exit 0
	;;
1)
	if [ -n "$first" ]; then
		printf '%s\n' "$first"
		exit 1
	fi
	;;
esac
printf 'partition-monitor check fails: %s\n' "$(printf '%s\n' "$found" | head -n 1)"
exit 2
