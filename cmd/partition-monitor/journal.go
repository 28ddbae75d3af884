package main

import (
	"log/slog"

	"nodepartition/pkg/podmove"
)

// journal writes what happens to pods to the log.
type journal struct{ log *slog.Logger }

func (j journal) PassFailed(err error) { j.log.Error("a pass failed, it is made again", "error", err) }

func (j journal) PassesAgain() { j.log.Info("passes succeed again") }

func (j journal) NotPrepared(namespace, pod string, err error) {
	j.log.Error("a pod's slice could not be made before its first container; the next pass does it", "namespace", namespace, "pod", pod, "error", err)
}

func (j journal) NotPlaced(container string, err error) {
	j.log.Error("a container was not placed at its creation", "container", container, "error", err)
}

func (j journal) Moving(m podmove.Move, c podmove.Container) {
	what := "moving the processes of a container, because its pod is in the wrong partition"
	if m.Way == podmove.Restart {
		what = "stopping a container, which the kubelet starts again, because its pod is in the wrong partition"
	}
	j.of(m).Info(what, "container", c.Name, "id", c.ID, "from", c.Slice)
}

func (j journal) MoveFailed(m podmove.Move, c podmove.Container, err error) {
	j.of(m).Error("moving a pod failed, it is tried again later", "container", c.Name, "error", err)
}

func (j journal) GivenUp(m podmove.Move, c podmove.Container, err error, all bool) {
	what := "a restart has not moved a pod, it is not restarted again"
	if all {
		what = "a restart has not moved a pod; none is restarted until the runtime connects over NRI again or the configuration changes"
	}
	j.of(m).Error(what, "container", c.Name, "error", err)
}

func (j journal) NotReady(m podmove.Move) {
	j.of(m).Warn("a pod that was restarted is in its place and not Ready again; no other is restarted until it is")
}

func (j journal) Killing(scope string) {
	j.log.Info("killing what is left of a container that has ended", "scope", scope)
}

func (j journal) of(m podmove.Move) *slog.Logger {
	return j.log.With("namespace", m.Namespace, "pod", m.Name, "uid", m.UID, "to", m.To, "way", m.Way)
}
