package podmove

import (
	"nodepartition/internal/membership"
	"nodepartition/pkg/podmove/report"
)

type (
	// Report is what a pass finds.
	Report = report.Report
	// PodReport is the place of a pod.
	PodReport = report.Pod
	// WorkloadReport is the workload type of a pod.
	WorkloadReport = report.Workload
	// Outlived is a scope with processes that have outlived their pod.
	Outlived = report.Outlived
	// Reason is the reason why a pod is misplaced.
	Reason = report.Reason
)

// The reasons why a pod is misplaced.
const (
	ReasonPending       = report.Pending
	ReasonMoving        = report.Moving
	ReasonNextStart     = report.NextStart
	ReasonStarting      = report.Starting
	ReasonRestartPolicy = report.RestartPolicy
	ReasonUnknownPolicy = report.UnknownPolicy
	ReasonOwnCgroups    = report.OwnCgroups
	ReasonTerminating   = report.Terminating
	ReasonNoNRI         = report.NoNRI
	ReasonNoKubelet     = report.NoKubelet
	ReasonFailed        = report.Failed
	ReasonForbidden     = report.Forbidden
	ReasonForeign       = report.Foreign
)

// Reasons returns all of them, for metrics that must have a value before the first.
func Reasons() []Reason {
	return []Reason{
		ReasonPending,
		ReasonMoving,
		ReasonNextStart,
		ReasonStarting,
		ReasonRestartPolicy,
		ReasonUnknownPolicy,
		ReasonOwnCgroups,
		ReasonTerminating,
		ReasonNoNRI,
		ReasonNoKubelet,
		ReasonFailed,
		ReasonForbidden,
		ReasonForeign,
	}
}

// workloadReport returns what is reported of a place; nil if no type has to do with it.
func workloadReport(p membership.Place) *WorkloadReport {
	if p.Type == "" && p.Refused == "" {
		return nil
	}
	return &WorkloadReport{Type: p.Type, By: p.By, Refused: p.Refused}
}
