package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// ReasonEvicted is the reason of an evicted pod's phase and of the event (Reason,
// pkg/kubelet/eviction/helpers.go).
const ReasonEvicted = "Evicted"

// Pod identifies a pod. The API server may have another pod of that name, with another UID.
type Pod struct{ UID, Namespace, Name string }

// maxConflicts bounds the number of times that a pod may change between our read and our patch:
// kubelet and controllers change it a few times while a pod ends.
const maxConflicts = 10

// Ended reports whether a pod has ended (is gone, has succeeded, or has failed for a reason), and
// whether its kubelet knows that it has ended. Until the kubelet knows, it may overwrite the phase,
// and restart the pod's containers. A pod that has failed without a reason counts as not ended; see
// isFinal.
func (c *Client) Ended(ctx context.Context, p Pod) (ended, known bool, err error) {
	pod, err := c.pod(ctx, p)
	if errors.Is(err, ErrGone) {
		return true, true, nil
	}
	if err != nil {
		return false, false, err
	}
	return isFinal(pod), hasEnded(pod) && kubeletKnows(pod), nil
}

// kubeletKnows reports whether the kubelet of a pod that has ended has written its status since.
// The kubelet then reports no container as running, and the reason for which the pod is not ready
// (GenerateContainersReadyCondition, pkg/kubelet/status/generate.go, since 1.24). MarkEvicted
// writes that reason only for pods that were ready, which had running containers. The status that
// stays is the one after the sandbox has ended, too (SyncTerminatingPod, pkg/kubelet/kubelet.go).
// Until then the kubelet may write an older one again, without the reason (needsReconcile; seen
// with 1.37.0 on a busy node). A kubelet before 1.29 has no condition for the sandbox.
func kubeletKnows(pod *v1.Pod) bool {
	status := pod.Status
	all := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses)
	for _, c := range all {
		if c.State.Running != nil {
			return false
		}
	}
	//guard: a reason is read once the sandbox has ended
	if sandbox := condition(pod, v1.PodReadyToStartContainers); sandbox != nil && sandbox.Status == v1.ConditionTrue {
		return false
	}
	ready := condition(pod, v1.PodReady)
	return ready == nil || ready.Reason == podFailed || ready.Reason == podCompleted
}

func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded
}

// isFinal reports whether a pod has succeeded, or failed for a reason. Some of a kubelet's writes
// leave an eviction without its reason. The kubelet reads the phase from the API server, and keeps
// the reason only if its own last status had that phase already. Its first write drops the reason.
// If ending the containers takes long, that write arrives before the second one, which would have
// taken the reason over from the API server (generateAPIPodStatus, pkg/kubelet/kubelet_pods.go;
// seen with 1.37.0 and a runtime that did not answer for two seconds).
func isFinal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed && pod.Status.Reason != ""
}

// MarkEvicted gives a pod the status of an evicted one: the phase Failed with the reason Evicted,
// the condition DisruptionTarget, and the conditions for not being ready. describe returns the
// message for the pod as the API server has it. It returns nil without a change for a pod that has
// succeeded, or failed for any reason: that is final, and so a second call changes nothing. A pod
// that has failed without a reason gets this one: it ended because of us, or together with us, and
// its kubelet takes the reason over while it cleans up. The mirror of a static pod is left alone,
// with ErrStatic: the kubelet writes its status and does not read it. The kubelet does not evict
// static pods either, because it would not start them again (evictPod).
//
// A PodDisruptionBudget is not checked, as in the kubelet. A pod that is being deleted is marked
// like any other.
func (c *Client) MarkEvicted(ctx context.Context, p Pod, now time.Time, describe func(*v1.Pod) string) error {
	var err error
	for range maxConflicts {
		var pod *v1.Pod
		if pod, err = c.pod(ctx, p); err != nil {
			return err
		}
		message := describe(pod)
		if isFinal(pod) {
			return nil
		}
		// A strategic merge patch, like the kubelet's (PatchPodStatus, pkg/util/pod), keeps what others
		// write to the status. A JSON patch would need the index of a condition. The preconditions are
		// the UID and, unlike the kubelet's, the version at which the pod had not ended: the second
		// writer reads what the first has written. If the version differs, the answer is 409 (Conflict).
		// For a JSON patch whose test fails, and for another UID alone, it is 422, as for any invalid
		// request.
		if _, err = c.write(ctx, c.patch(p, evictedPatch(pod, now, message))); !apierrors.IsConflict(err) {
			return c.failed("patch pods/status", p.Namespace, p.Name, err)
		}
	}
	return c.about(
		"patch pods/status",
		p.Namespace, p.Name, fmt.Errorf("%w: %d tries: %w", ErrUnreachable, maxConflicts, err),
	)
}

// pod returns the pod as the API server has it, ErrGone if another pod has its name.
func (c *Client) pod(ctx context.Context, p Pod) (*v1.Pod, error) {
	pod := &v1.Pod{}
	err := c.get(ctx, c.rest.Get().Namespace(p.Namespace).Resource("pods").Name(p.Name), pod)
	if apierrors.IsForbidden(err) {
		err = c.forbiddenOrGone(ctx, p, err)
	}
	if err != nil {
		return nil, c.failed("get pods", p.Namespace, p.Name, err)
	}
	// Checked before the UID: a mirror pod has another UID than its static pod.
	if _, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; mirror {
		return nil, c.about("patch pods/status", p.Namespace, p.Name, ErrStatic)
	}
	//guard: a pod of the same name with another UID is not evicted
	if string(pod.UID) != p.UID {
		return nil, c.about(
			"get pods",
			p.Namespace, p.Name, fmt.Errorf("%w: its name now belongs to %s, not to %s", ErrGone, pod.UID, p.UID),
		)
	}
	return pod, nil
}

// forbiddenOrGone returns NotFound instead of forbidden for a pod that is gone. The Node authorizer
// forbids a kubelet to read a deleted pod, too, instead of answering that there is none
// (authorizePod, plugin/pkg/auth/authorizer/node, v1.37.0). It allows every patch of a pod's
// status, and the API server then checks whether the pod exists. This patch changes nothing.
func (c *Client) forbiddenOrGone(ctx context.Context, p Pod, forbidden error) error {
	var patch statusPatch
	patch.Metadata.UID = types.UID(p.UID)
	_, err := c.do(ctx, c.patch(p, patch).Param("dryRun", metav1.DryRunAll))
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return forbidden
	//guard: a refusal of a value does not say that the pod is gone
	case isOfAnother(err):
		return apierrors.NewNotFound(v1.Resource("pods"), p.Name)
	}
	return err
}

// isOfAnother reports whether an object of the name has another UID than the patch, which cannot
// be changed. If more is wrong with the patch, another cause may come first, and the error stays
// what it is.
func isOfAnother(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

func (c *Client) patch(p Pod, patch statusPatch) *rest.Request {
	return c.merge(patch).Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("status")
}

// statusPatch is a strategic merge patch of a pod. Conditions are merged by their type.
type statusPatch struct {
	Metadata struct {
		// These are preconditions.
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Status struct {
		Phase      v1.PodPhase      `json:"phase"`
		Reason     string           `json:"reason"`
		Message    string           `json:"message"`
		Conditions []conditionPatch `json:"conditions"`
	} `json:"status,omitzero"`
}

// conditionPatch is a whole condition: null removes a field.
type conditionPatch struct {
	Type   v1.PodConditionType `json:"type"`
	Status v1.ConditionStatus  `json:"status"`
	// ObservedGeneration is the pod's generation, which API servers before 1.33 do not count.
	ObservedGeneration int64        `json:"observedGeneration,omitempty"`
	LastProbeTime      *metav1.Time `json:"lastProbeTime"`
	LastTransitionTime metav1.Time  `json:"lastTransitionTime"`
	Reason             string       `json:"reason"`
	Message            *string      `json:"message"`
}

// podFailed and podCompleted are the reasons for which a pod that has ended is not ready (PodFailed
// and PodCompleted, pkg/kubelet/status/generate.go).
const podFailed, podCompleted = "PodFailed", "PodCompleted"

// evictedPatch returns the patch that makes the status of a pod equal to that after the kubelet's
// own eviction.
func evictedPatch(pod *v1.Pod, now time.Time, message string) statusPatch {
	var patch statusPatch
	//guard: the patch has the UID as a precondition
	patch.Metadata.UID, patch.Metadata.ResourceVersion = pod.UID, pod.ResourceVersion
	patch.Status.Phase, patch.Status.Reason, patch.Status.Message = v1.PodFailed, ReasonEvicted, message
	add := func(kind v1.PodConditionType, status v1.ConditionStatus, reason string, message *string) {
		transition := metav1.NewTime(now)
		// As UpdatePodCondition, pkg/api/v1/pod/util.go.
		if old := condition(pod, kind); old != nil && old.Status == status {
			transition = old.LastTransitionTime
		}
		patch.Status.Conditions = append(patch.Status.Conditions, conditionPatch{
			Type: kind, Status: status, ObservedGeneration: pod.Generation,
			LastTransitionTime: transition, Reason: reason, Message: message,
		})
	}
	add(v1.DisruptionTarget, v1.ConditionTrue, v1.PodReasonTerminationByKubelet, &message)
	// A pod must not be both failed and ready until its kubelet follows (mergePodStatus;
	// issues.k8s.io/108594).
	if isTrue(pod, v1.PodReady) || isTrue(pod, v1.ContainersReady) {
		add(v1.ContainersReady, v1.ConditionFalse, podFailed, nil)
		add(v1.PodReady, v1.ConditionFalse, podFailed, nil)
	}
	return patch
}

func isTrue(pod *v1.Pod, kind v1.PodConditionType) bool {
	c := condition(pod, kind)
	return c != nil && c.Status == v1.ConditionTrue
}

func condition(pod *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
