# shellcheck shell=bash
# Completions of partition-monitor for bash. Written by make generate.

_partition_monitor() {
	local cur=${COMP_WORDS[COMP_CWORD]} at=partition-monitor word words=
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case "$at $word" in
		'partition-monitor run') at='partition-monitor run' ;;
		'partition-monitor status') at='partition-monitor status' ;;
		'partition-monitor check') at='partition-monitor check' ;;
		'partition-monitor validate') at='partition-monitor validate' ;;
		'partition-monitor plan') at='partition-monitor plan' ;;
		'partition-monitor recommend') at='partition-monitor recommend' ;;
		'partition-monitor render') at='partition-monitor render' ;;
		'partition-monitor move') at='partition-monitor move' ;;
		'partition-monitor try') at='partition-monitor try' ;;
		'partition-monitor keep') at='partition-monitor keep' ;;
		'partition-monitor collect') at='partition-monitor collect' ;;
		'partition-monitor version') at='partition-monitor version' ;;
		esac
	done
	case "$at $cur" in
	'partition-monitor version -'*) words='--help' ;;
	'partition-monitor version '*) words='' ;;
	'partition-monitor collect -'*) words='--runtime-endpoint --nri-socket --pods-api-socket --listen --move --eviction --eviction-protect --eviction-cooldown --kubeconfig --events --node-condition --node-status --output --help' ;;
	'partition-monitor collect '*) words='' ;;
	'partition-monitor keep -'*) words='--help' ;;
	'partition-monitor keep '*) words='' ;;
	'partition-monitor try -'*) words='--for --force --end --help' ;;
	'partition-monitor try '*) words='' ;;
	'partition-monitor move -'*) words='--help' ;;
	'partition-monitor move '*) words='' ;;
	'partition-monitor render -'*) words='--type --role --kubeconfig --api-version --validating-only --config --selector --remove --help' ;;
	'partition-monitor render '*) words='' ;;
	'partition-monitor recommend -'*) words='--partition --force --output --prometheus --by --match --http.config.file --root --help' ;;
	'partition-monitor recommend '*) words='' ;;
	'partition-monitor plan -'*) words='--pods-api-socket --output --capacity --config --root --help' ;;
	'partition-monitor plan '*) words='' ;;
	'partition-monitor validate -'*) words='--output --capacity --strict --root --help' ;;
	'partition-monitor validate '*) words='' ;;
	'partition-monitor check -'*) words='--runtime-endpoint --nri-socket --pods-api-socket --listen --move --eviction --eviction-protect --eviction-cooldown --kubeconfig --events --node-condition --node-status --output --ignore --root --help' ;;
	'partition-monitor check '*) words='' ;;
	'partition-monitor status -'*) words='--runtime-endpoint --nri-socket --pods-api-socket --listen --move --eviction --eviction-protect --eviction-cooldown --kubeconfig --events --node-condition --node-status --output --wait --timeout --watch --root --help' ;;
	'partition-monitor status '*) words='' ;;
	'partition-monitor run -'*) words='--runtime-endpoint --nri-socket --pods-api-socket --listen --move --eviction --eviction-protect --eviction-cooldown --kubeconfig --events --node-condition --node-status --web.config.file --textfile --tick --per-pod-metrics --debug --help' ;;
	'partition-monitor run '*) words='' ;;
	'partition-monitor -'*) words='--version --root --help' ;;
	'partition-monitor '*) words='run status check validate plan recommend render move try keep collect version' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _partition_monitor partition-monitor
