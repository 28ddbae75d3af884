# shellcheck shell=bash
# Completions of partition-monitor for bash. Written by make generate.

_partition_monitor() {
	local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at=partition-monitor word words=
	# --option=value is three words.
	[[ $cur != '=' ]] || cur=
	[[ $before != '=' ]] || before=${COMP_WORDS[COMP_CWORD-2]}
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case "$at $word" in
		'partition-monitor run') at='partition-monitor run' ;;
		'partition-monitor status') at='partition-monitor status' ;;
		'partition-monitor check') at='partition-monitor check' ;;
		'partition-monitor explain') at='partition-monitor explain' ;;
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
	case "$at $before" in
	'partition-monitor run --move') words='auto restart live never' ;;
	'partition-monitor run --eviction') words='on off dry-run' ;;
	'partition-monitor run --events') words='on off' ;;
	'partition-monitor status --output') words='table json yaml' ;;
	'partition-monitor status -o') words='table json yaml' ;;
	'partition-monitor check --output') words='table json yaml' ;;
	'partition-monitor check -o') words='table json yaml' ;;
	'partition-monitor check --ignore') words='configuration trial kubelet systemd slice reserved floor runtime cgroup-driver nri pods-api namespaces eviction-kernel eviction-api events workload-resource workload-rights swap systemd-oomd service second-writer collective-limit cpu-manager' ;;
	'partition-monitor validate --output') words='table json yaml' ;;
	'partition-monitor validate -o') words='table json yaml' ;;
	'partition-monitor plan --output') words='table json yaml' ;;
	'partition-monitor plan -o') words='table json yaml' ;;
	'partition-monitor recommend --output') words='yaml json' ;;
	'partition-monitor recommend -o') words='yaml json' ;;
	*)
		case "$at $cur" in
		'partition-monitor version -'*) words='--help' ;;
		'partition-monitor version '*) words='' ;;
		'partition-monitor collect -'*) words='--help' ;;
		'partition-monitor collect '*) words='' ;;
		'partition-monitor keep -'*) words='--help' ;;
		'partition-monitor keep '*) words='' ;;
		'partition-monitor try -'*) words='--for --force --end --help' ;;
		'partition-monitor try '*) words='' ;;
		'partition-monitor move -'*) words='--help' ;;
		'partition-monitor move '*) words='' ;;
		'partition-monitor render -'*) words='--type --role --kubeconfig --api-version --validating-only --require-monitor --config --selector --remove --help' ;;
		'partition-monitor render '*) words='pod pinning crio machineconfig butane admission' ;;
		'partition-monitor recommend -'*) words='--partition --force --output --prometheus --by --match --http.config.file --root --help' ;;
		'partition-monitor recommend '*) words='' ;;
		'partition-monitor plan -'*) words='--pods-api-socket --output --capacity --config --root --help' ;;
		'partition-monitor plan '*) words='' ;;
		'partition-monitor validate -'*) words='--output --capacity --strict --root --help' ;;
		'partition-monitor validate '*) words='' ;;
		'partition-monitor explain -'*) words='--help' ;;
		'partition-monitor explain '*) words='cgroup-driver collective-limit commands configuration cpu-manager events eviction-api eviction-kernel eviction fleet floor kubelet-metrics kubelet moved-live namespaces nri placement plan pods-api recommend reserved runtime second-writer service slice swap systemd-oomd systemd tree trial workload-resource workload-rights' ;;
		'partition-monitor check -'*) words='--output --verbose --ignore --root --help' ;;
		'partition-monitor check '*) words='' ;;
		'partition-monitor status -'*) words='--output --all --wait --timeout --watch --root --help' ;;
		'partition-monitor status '*) words='' ;;
		'partition-monitor run -'*) words='--runtime-endpoint --nri-socket --pods-api-socket --listen --move --eviction --eviction-protect --eviction-cooldown --kubeconfig --events --node-status --web.config.file --textfile --nri-validate --tick --per-pod-metrics --debug --help' ;;
		'partition-monitor run '*) words='' ;;
		'partition-monitor -'*) words='--version --root --help' ;;
		'partition-monitor '*) words='run status check explain validate plan recommend render move try keep collect version' ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _partition_monitor partition-monitor
