// Package nodepod makes the pod that changes one node. Nothing of it is read from the cluster but
// what Of is given, and the policy of the installation compares each pod with it (package
// manifest).
package nodepod

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/plan"
	"node-partition.io/node-partition/rollout/section"
)

// Settings are those of an installation. The policy has the same.
type Settings struct {
	// Namespace is the controller's. Its pods are there.
	Namespace string
	// Image has partition-installer, of Version.
	Image, Version string
	PullPolicy     v1.PullPolicy
	// PriorityClass lets the pods run on a full node.
	PriorityClass string
	// AppArmor is the profile of the pods: Unconfined, where the default one keeps them from the
	// host's bus. SELinuxType is empty for the runtime's.
	AppArmor    v1.AppArmorProfileType
	SELinuxType string
}

// Labels are those of all pods of nodes.
func Labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "node-partition", "app.kubernetes.io/component": "node"}
}

// ServiceAccount is the account of the pods. It has no rights, and the pods no token.
const ServiceAccount = "node-partition-node"

// SectionAnnotation has the text of the section, which the pod has as a file.
const SectionAnnotation = "node-partition.io/section"

// The places in the pod. The host's systemd runs what changes the node: its socket is in Bus.
const (
	Bus         = "/run/dbus"
	State       = "/var/lib/node-partition/installer"
	sectionFile = "/section/section.yaml"
)

// longest is the time that a pod may take: that of the host, and a margin for its image.
const longest = record.Life + 10*time.Minute

// Name returns the name of the pod of a node, which fits a host name. A node has one pod at a time,
// because a name is taken once.
func Name(node string) string {
	digest := sha256.Sum256([]byte(node))
	short := strings.Trim(strings.ReplaceAll(node[:min(len(node), 30)], ".", "-"), "-")
	return "node-partition-" + short + "-" + hex.EncodeToString(digest[:8])
}

// Args returns the arguments of the container. They have fixed places, by which the policy compares
// them.
func Args(s Settings, p *v1alpha1.NodePartition, c section.Section, start plan.Start) []string {
	if start.Mode == plan.Remove {
		return []string{"remove", "--node=" + start.Node, "--version=" + s.Version}
	}
	return []string{
		"apply", "--node=" + start.Node, "--version=" + s.Version, "--section=" + sectionFile, "--section-sha256=" + c.Hash,
		"--trial=" + p.Spec.Rollout.Trial.Round(time.Second).String(), "--monitor-args=" + strings.Join(p.Spec.MonitorArgs, " "),
		fmt.Sprintf("--survey=%t", start.Mode == plan.Survey),
	}
}

// Of returns the pod that changes a node. want is plan.Want.Key.
func Of(s Settings, p *v1alpha1.NodePartition, c section.Section, want string, start plan.Start) *v1.Pod {
	if start.Mode == plan.Remove {
		want = plan.WantRemoved
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(start.Node), Namespace: s.Namespace, Labels: Labels(),
			Annotations: map[string]string{
				plan.PartitionAnnotation: p.Name, plan.NodeAnnotation: start.Node, plan.ModeAnnotation: string(start.Mode),
				plan.WantAnnotation: want, plan.VersionAnnotation: s.Version, plan.HashAnnotation: c.Hash,
				plan.FirstAnnotation:          strconv.FormatBool(start.First),
				SectionAnnotation:             c.Text,
				"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
			},
		},
		Spec: spec(s, Args(s, p, c, start), start, plan.Tolerations(start.Mode, p.Spec.Tolerations)),
	}
}

func spec(s Settings, args []string, start plan.Start, tolerations []v1.Toleration) v1.PodSpec {
	return v1.PodSpec{
		RestartPolicy:                v1.RestartPolicyNever,
		ServiceAccountName:           ServiceAccount,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		DNSPolicy:                    v1.DNSDefault,
		PriorityClassName:            s.PriorityClass,
		ActiveDeadlineSeconds:        ptr.To(int64(longest.Seconds())),
		Tolerations:                  tolerations,
		SecurityContext:              podSecurity(s),
		// As of a DaemonSet's pod: the scheduler sees whether the pod fits.
		Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{start.Node}},
				}}},
			},
		}},
		Containers: []v1.Container{Container(s, args)},
		Volumes:    Volumes(),
	}
}

func podSecurity(s Settings) *v1.PodSecurityContext {
	c := &v1.PodSecurityContext{
		// systemd asks for user 0 on its bus. The capabilities of root are dropped.
		RunAsUser: ptr.To(int64(0)), RunAsGroup: ptr.To(int64(0)),
		SeccompProfile:  &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile: &v1.AppArmorProfile{Type: s.AppArmor},
	}
	if s.SELinuxType != "" {
		c.SELinuxOptions = &v1.SELinuxOptions{Type: s.SELinuxType}
	}
	return c
}

// Container returns the one container.
func Container(s Settings, args []string) v1.Container {
	return v1.Container{
		Name: plan.ContainerName, Image: s.Image, ImagePullPolicy: s.PullPolicy,
		Command: []string{"/partition-installer"}, Args: args,
		TerminationMessagePath:   v1.TerminationMessagePathDefault,
		TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &v1.SecurityContext{
			Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
		},
		Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m"), v1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []v1.VolumeMount{
			{Name: "bus", MountPath: Bus, ReadOnly: true},
			{Name: "state", MountPath: "/host/state"},
			{Name: "section", MountPath: "/section", ReadOnly: true},
		},
	}
}

// Volumes returns the volumes: two folders of the host, and the section.
func Volumes() []v1.Volume {
	return []v1.Volume{
		{Name: "bus", VolumeSource: ofHost(Bus, v1.HostPathDirectory)},
		{Name: "state", VolumeSource: ofHost(State, v1.HostPathDirectoryOrCreate)},
		{Name: "section", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
			DefaultMode: ptr.To(int32(0o444)),
			Items: []v1.DownwardAPIVolumeFile{{
				Path:     "section.yaml",
				FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + SectionAnnotation + "']"},
			}},
		}}},
	}
}

func ofHost(path string, kind v1.HostPathType) v1.VolumeSource {
	return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}
}
