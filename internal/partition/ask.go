package partition

import (
	"bytes"
	"encoding/json"
	"strings"
)

// TargetPrefix is the beginning of the annotation by which a pod asks for a type. Both dialects
// have it: target.workload.openshift.io/TYPE with {"effect": "PreferredDuringScheduling"} as its
// value.
const TargetPrefix = "target.workload.openshift.io/"

// PreferredEffect is the only effect that there is. RequiredDuringScheduling was never implemented,
// and OpenShift's API server refuses it.
const PreferredEffect = "PreferredDuringScheduling"

// maxValue bounds the value of a target in bytes. The runtime passes up to 64 KiB of annotations.
const maxValue = 1 << 10

// Ask is the workload type that a pod asks for. It is small whatever the annotations hold, because
// it is kept with each pod.
type Ask struct {
	// Type is empty if the pod asks for none, and if its annotations cannot be followed.
	Type string
	// Flaw names what is wrong with the annotations; empty for nothing.
	Flaw Flaw
}

// Flaw is one of a fixed set of reasons why annotations cannot be followed.
type Flaw string

// The flaws.
const (
	// FlawTwoTypes means that the pod asks for more than one type.
	FlawTwoTypes Flaw = "two-types"
	// FlawBadAnnotation means that the value is not the one effect, or that the type cannot be one.
	FlawBadAnnotation Flaw = "bad-annotation"
)

// maxType bounds the name of a type. No partition has a longer one.
const maxType = 63

// AskOf returns what annotations ask for.
func AskOf(annotations map[string]string) Ask {
	found, value, targets := "", "", 0
	for key, v := range annotations {
		if name, ok := strings.CutPrefix(key, TargetPrefix); ok {
			found, value = name, v
			targets++
		}
	}
	switch {
	case targets == 0:
		return Ask{}
	case targets > 1:
		return Ask{Flaw: FlawTwoTypes}
	case found == "" || len(found) > maxType || !isPreferred(value):
		return Ask{Flaw: FlawBadAnnotation}
	}
	return Ask{Type: strings.Clone(found)} // and not a part of the runtime's message
}

// isPreferred reports whether the value of a target has the one effect that there is. An object
// without it has that effect by the enhancement. OpenShift's API server asks for it, and writes it.
func isPreferred(value string) bool {
	if len(value) > maxValue {
		return false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(value), &object) != nil || object == nil {
		return false
	}
	effect, ok := object["effect"]
	switch {
	case !ok:
		return len(object) == 0
	case len(object) > 1:
		return false
	}
	return bytes.Equal(bytes.TrimSpace(effect), []byte(`"`+PreferredEffect+`"`))
}
