package kubeletconfig

import (
	"maps"
	"slices"
	"strings"
)

// kubeletFields are the fields of the kubelet's configuration, at its top, in Kubernetes 1.37. They
// tell the kubelet's own configuration from a file for OverridePath: both have one apiVersion and
// one kind.
const kubeletFields = `
address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot
cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy
containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval
containerRuntimeEndpoint contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy
cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff defaultPodSysctls
enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler
enableSystemLogQuery enforceNodeAllocatable eventBurst eventRecordQPS evictionHard
evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft
evictionSoftGracePeriod failCgroupV1 failSwapOn featureGates fileCheckFrequency hairpinMode
healthzBindAddress healthzPort httpCheckFrequency imageGCHighThresholdPercent
imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge
imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReserved
kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging makeIPTablesUtilChains
maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy memoryReservationPolicy
memorySwap memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds
nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR
podLogsDir podPidsLimit podsPerCore port preloadedImagesVerificationAllowlist
protectKernelDefaults providerID qosReserved readOnlyPort registerNode registerWithTaints
registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf rotateCertificates
runOnce runtimeRequestTimeout seccompDefault serializeImagePulls serverTLSBootstrap
showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath staticPodURL
staticPodURLHeader streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved
systemReservedCgroup tlsCertFile tlsCipherSuites tlsCurvePreferences tlsMinVersion
tlsPrivateKeyFile topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope
tracing userNamespaces volumePluginDir volumeStatsAggPeriod
`

// KubeletFields lists the fields of the kubelet's configuration, at its top, by name.
func KubeletFields() []string { return strings.Fields(kubeletFields) }

// ofKubelet returns the first field, by name, that the kubelet's configuration has and a file for
// OverridePath has not. It is empty if there is none.
func (d document) ofKubelet() string {
	known := KubeletFields()
	for _, name := range slices.Sorted(maps.Keys(d.fields)) {
		if slices.Contains(known, name) {
			return name
		}
	}
	return ""
}
