// Package kubeapi reports the eviction of a pod of this node to the API server, in the same form in
// which the kubelet reports its own node-pressure evictions (k8s.io/kubernetes v1.37.0: evictPod
// and evictionMessage in pkg/kubelet/eviction, mergePodStatus and syncPod in pkg/kubelet/status).
//
// # How the kubelet follows
//
// The kubelet tears down a pod that is Failed in the API and never restarts it
// (podWorkers.UpdatePod). Containers that still run get the pod's own grace period, not an
// eviction's. The kubelet keeps the phase. It also keeps the reason after the teardown, but leaves
// it empty for a moment (generateAPIPodStatus, SyncTerminatingPod). The condition stays all the
// time (mergePodStatus).
//
// Two things may happen before. First, the kubelet takes its own view of a pod's status for the
// true one. Until it begins the teardown it overwrites ours, phase and reason, at each change of
// the pod and every ten seconds (syncBatch, needsReconcile). It has begun when it reports itself
// that the pod has failed, which its Pods API shows. Until then MarkEvicted has to be repeated.
// Second, a pod whose containers are not restarted fails by itself when it is killed. If that
// happens before MarkEvicted, the pod has failed and was not evicted, which a Job's
// podFailurePolicy counts differently.
package kubeapi
