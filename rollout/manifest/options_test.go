package manifest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/nodepod"
	"node-partition.io/node-partition/rollout/plan"
	"node-partition.io/node-partition/rollout/section"
)

// TestOptions: what the definition takes as options of the monitor and as a trial, the policy and
// the installer take, too, and nothing else.
func TestOptions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	var crd object
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	taken := regexp.MustCompile(fieldsOfSpec(crd)["monitorArgs"].(object)["items"].(object)["pattern"].(string))
	parsed := regexp.MustCompile(`^` + record.MonitorArgs + `$`)
	made, err := PodPolicy()
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(index string) *regexp.Regexp {
		return regexp.MustCompile(regexp.MustCompile(`variables.args\[` + index + `\].matches\(r?'([^']*)'\)`).FindStringSubmatch(made)[1])
	}
	trials, options := allowed("5"), allowed("6")
	args := func(trial time.Duration, monitor ...string) []string {
		p := &v1alpha1.NodePartition{}
		p.Spec.MonitorArgs, p.Spec.Rollout.Trial.Duration = monitor, trial
		return nodepod.Args(nodepod.Settings{}, p, section.Section{}, plan.Start{Mode: plan.Apply})
	}
	for option, want := range map[string]bool{
		"--memory-burst": true, "--listen=[::]:9948": true, "--web.config.file=/etc/x_y.yaml": true, "--a=b,c@d+e=": true, "--a=": true,
		"": false, "word": false, "-a": false, "--A": false, "--a b": false, "--a=b c": false, "--a=12%": false, "--a=$(S)": false,
		`--a="b"`: false, "--a='": false, `--a=\x`: false, "--a\n--b": false, "--a=;": false, "--a=`x`": false,
	} {
		crd, policy := taken.MatchString(option), options.MatchString(args(time.Minute, "--first", option)[6])
		if node := parsed.MatchString("--first " + option); crd != want || policy != want || node != want {
			t.Errorf("%q: the definition %t, the policy %t, the installer %t; want %t", option, crd, policy, node, want)
		}
	}
	for _, trial := range []time.Duration{record.MinTrial, 90500 * time.Millisecond, 90 * time.Second, 59*time.Minute + time.Nanosecond, record.MaxTrial} {
		arg := args(trial)[5]
		_, value, _ := strings.Cut(arg, "=")
		if passed, err := time.ParseDuration(value); !trials.MatchString(arg) || err != nil || passed < record.MinTrial || passed > record.MaxTrial {
			t.Errorf("%s becomes %s, %v", trial, arg, err)
		}
	}
	pod := nodepod.Of(nodepod.Settings{}, &v1alpha1.NodePartition{}, section.Section{}, "", plan.Start{Mode: plan.Apply})
	if life := time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second; life <= record.Life {
		t.Errorf("the pod lives for %s, and the host works for %s", life, record.Life)
	}
}
