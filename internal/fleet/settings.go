package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// Settings holds the settings of a roll, roll.yaml of the ConfigMap.
type Settings struct {
	// Version is the version of the programs in the image of the Jobs.
	Version string `json:"version"`
	// Selector selects nodes by their labels, as kubectl get nodes -l does; all if it is empty. Nodes
	// of another operating system than Linux are never selected.
	Selector Selector `json:"selector"`
	// Nodes is the number of nodes that have a Job at once, of each pool; 1 if it is not given.
	Nodes Share `json:"nodes"`
	// MaxFailures is the number of nodes that may fail before no further Job is made.
	MaxFailures int `json:"maxFailures"`
	// Pools lists selectors. A node belongs to the first that matches, and to one more pool after them
	// if none does. The pools have their turns one after the other.
	Pools []Selector `json:"pools"`
	// ControlPlane says whether nodes of the control plane are selected.
	ControlPlane ControlPlane `json:"controlPlane"`
	// Pause is the time for which the place of a node stays taken after the node was kept: the node
	// controller notices a dead kubelet after 50 seconds (--node-monitor-grace-period).
	Pause time.Duration `json:"-"`
	// Trial is the time after which a node goes back by itself, if nothing has kept the partition.
	Trial time.Duration `json:"-"`
	// NRI is the runtime in which the Jobs switch NRI on, or none.
	NRI string `json:"nri"`
	// MonitorArgs holds arguments of partition-monitor, PARTITION_MONITOR_ARGS of a node.
	MonitorArgs string `json:"monitorArgs"`
}

// ParseSettings reads roll.yaml. name is the file in errors.
func ParseSettings(name string, data []byte) (Settings, error) {
	file := struct {
		Settings
		Pause scalar `json:"pause"`
		Trial scalar `json:"trial"`
	}{Settings: Settings{Nodes: Share{count: 1}, NRI: nriNone}, Pause: "1m", Trial: "10m"}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(asJSON))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&file)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", name, err)
	}
	s := file.Settings
	pause, pauseErr := time.ParseDuration(string(file.Pause))
	trial, trialErr := time.ParseDuration(string(file.Trial))
	s.Pause, s.Trial = pause, trial
	for _, check := range []struct {
		field, value, want string
		wrong              bool
	}{
		{"version", s.Version, "1 to 63 letters, digits and ._+~-, with a letter or digit at both ends",
			!versionForm.MatchString(s.Version)},
		{"maxFailures", strconv.Itoa(s.MaxFailures), "0 or more", s.MaxFailures < 0},
		{"pause", string(file.Pause), "a time such as 30s", pauseErr != nil || pause < 0},
		{"trial", string(file.Trial), "1m to 24h", trialErr != nil || trial < time.Minute || trial > 24*time.Hour},
		{"nri", s.NRI, "none, containerd or crio", s.NRI != nriNone && s.NRI != "containerd" && s.NRI != "crio"},
	} {
		if check.wrong {
			return Settings{}, fmt.Errorf("%s: %s: %q; want %s", name, check.field, check.value, check.want)
		}
	}
	return s, nil
}

// versionForm matches what git describe prints, and versions of packages. They are short enough for
// the value of a label.
var versionForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._+~-]{0,61}[A-Za-z0-9])?$`)

const nriNone = "none"

// scalar is a value whose type in YAML does not count.
type scalar string

// UnmarshalJSON reads any scalar.
func (s *scalar) UnmarshalJSON(data []byte) error {
	*s = scalar(text(data))
	return nil
}

// text returns a scalar of YAML as it is written there.
func text(data []byte) string {
	var s string
	if json.Unmarshal(data, &s) == nil {
		return s
	}
	return string(bytes.TrimSpace(data))
}

// Share is a number of nodes, or a percentage of them.
type Share struct{ percent, count int }

// UnmarshalJSON reads 5 or "10%".
func (s *Share) UnmarshalJSON(data []byte) error {
	value := text(data)
	number, percent := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		return fmt.Errorf("nodes: %q; want a number of nodes from 1 on, or 1%% to 100%%", value)
	}
	*s = Share{count: n}
	if percent {
		*s = Share{percent: n}
	}
	return nil
}

// of returns the share of n nodes. A percentage is rounded down, and is at least one node: the
// share of a small pool must not be nothing.
func (s Share) of(n int) int {
	if s.percent > 0 {
		return max(1, n*s.percent/100)
	}
	return s.count
}

// ControlPlane says whether nodes of the control plane are selected: no, or after all others and
// one by one. An installation on all of them at once has starved etcd and API servers
// (openshift/machine-config-operator#5390).
type ControlPlane bool

// UnmarshalJSON reads false or last.
func (c *ControlPlane) UnmarshalJSON(data []byte) error {
	switch value := text(data); value {
	case "false", "last":
		*c = value == "last"
		return nil
	default:
		return fmt.Errorf("controlPlane: %q; want false or last", value)
	}
}

// Selector selects nodes by their labels. The zero value selects all.
type Selector struct{ labels.Selector }

// UnmarshalJSON reads "pool=canary,!spot".
func (s *Selector) UnmarshalJSON(data []byte) error {
	value := text(data)
	parsed, err := labels.Parse(value)
	if err != nil {
		return fmt.Errorf("selector: %q: %w; want labels such as \"pool=canary,!spot\"", value, err)
	}
	s.Selector = parsed
	return nil
}

func (s Selector) selects(of map[string]string) bool {
	return s.Selector == nil || s.Matches(labels.Set(of))
}
