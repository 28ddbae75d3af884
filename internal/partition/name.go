package partition

import "strings"

// root is the slice of all pods, and the kubelet's root of cgroups under the systemd driver.
const root = "kubepods"

// Slice returns the name of the partition's slice. The slices of its guaranteed pods are directly
// below it.
func (p Name) Slice() string { return p.stem() + suffix }

// The QoS classes, spelled as v1.PodQOSClass of k8s.io/api. They are untyped, and functions take
// any string type: importing that package would link net/http into the generator, which runs for a
// millisecond.
const (
	Guaranteed = "Guaranteed"
	Burstable  = "Burstable"
	BestEffort = "BestEffort"
)

// QoSSlice returns the name of the slice of the partition's pods of a class.
func QoSSlice[Q ~string](p Name, q Q) string { return p.stem() + classes[string(q)] + suffix }

// Below returns the name of drop-ins for all slices whose names begin with the partition's
// (systemd.unit(5)).
func (p Name) Below() string { return p.stem() + "-" + suffix }

// Cgroup returns the path of the partition's cgroup, from the root of the file system.
func (p Name) Cgroup() string { return CgroupMount + "/" + CgroupPath(p.Slice()) }

// Slices returns the names of the partition's own slices, outermost first.
func (p Name) Slices() []string {
	return []string{p.Slice(), QoSSlice(p, Burstable), QoSSlice(p, BestEffort)}
}

const suffix = ".slice"

// classes holds, by QoS class, the part of a slice's name that follows the partition's.
var classes = map[string]string{Guaranteed: "", Burstable: "-burstable", BestEffort: "-besteffort"}

// PodSlice returns the name of a pod's slice, as the kubelet's systemd driver does
// (GetPodContainerName of pkg/kubelet/cm). The dashes of the UID are escaped to underscores
// (escapeSystemdCgroupName), because dashes nest slices.
func PodSlice[Q ~string](p Name, q Q, uid string) string {
	return p.stem() + classes[string(q)] + podMark + EscapeUID(uid) + suffix
}

const podMark = "-pod"

// EscapeUID returns a UID in the form that names of slices have.
func EscapeUID(uid string) string { return strings.ReplaceAll(uid, "-", "_") }

// ParsePodSlice is the inverse of PodSlice, except that it returns the UID with its dashes still
// escaped. It reports false for any other name.
func ParsePodSlice(slice string) (p Name, q, escapedUID string, ok bool) {
	name, ok := strings.CutSuffix(slice, suffix)
	if !ok || strings.ContainsRune(name, '/') {
		return "", "", "", false
	}
	parent, uid, ok := cutLast(name, podMark)
	if !ok || uid == "" || strings.ContainsRune(uid, '-') {
		return "", "", "", false
	}
	q = Guaranteed
	for _, class := range []string{Burstable, BestEffort} {
		if cut, ok := strings.CutSuffix(parent, classes[class]); ok {
			parent, q = cut, class
		}
	}
	p, ok = fromStem(parent)
	return p, q, uid, ok
}

// ParseSlice is the inverse of Name.Slice. It reports false for any other name.
func ParseSlice(slice string) (Name, bool) {
	stem, ok := strings.CutSuffix(slice, suffix)
	if !ok {
		return "", false
	}
	return fromStem(stem)
}

// cutLast cuts s at the last separator, as strings.Cut does at the first.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i == -1 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
