package fleet

import (
	"strings"
	"testing"
	"time"
)

// aJob is the least template.
const aJob = `apiVersion: batch/v1
kind: Job
metadata:
  labels: {app: node-partition}
spec:
  template:
    metadata:
      labels: {app: node-partition}
    spec:
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      initContainers:
      - {name: preflight, image: other:1, args: [preflight]}
      containers:
      - name: keep
        args: [keep, "--node=$(NODE_PARTITION_NODE)"]
        env: [{name: MINE, value: "$(NODE_PARTITION_ROLL)"}]
`

func settings(t *testing.T, text string) Settings {
	t.Helper()
	s, err := ParseSettings("roll.yaml", []byte("version: v2\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTemplate: the Job of a node is the template with the node, and with nothing else changed.
func TestTemplate(t *testing.T) {
	t.Parallel()
	s := settings(t, "monitorArgs: --a=$(B)\ntrial: 7m\n")
	template, err := ParseTemplate("job.yaml", []byte(aJob), "installer:2", Install, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := template.Deadline(); got != 17*time.Minute {
		t.Errorf("deadline %s; want the trial and ten minutes", got)
	}
	n := &Node{Name: "worker-1", UID: "uid-1"}
	p := Plan{Action: Install, Roll: "0123456789", Version: "v2", Section: "0123456789ab", Settings: s}
	job := template.For(n, p, Owner{"node-partition", "uid-2"})
	if job.Name != jobName(p.Roll, n) || job.Labels["app"] != "node-partition" || job.Labels[RollLabel] != p.Roll ||
		job.Labels[NodeLabel] != "worker-1" || job.Labels[ActionLabel] != "install" || job.Annotations[NodeNameAnnotation] != "worker-1" {
		t.Errorf("metadata %+v", job.ObjectMeta)
	}
	if owners := job.OwnerReferences; len(owners) != 1 || owners[0].Kind != "ConfigMap" || owners[0].UID != "uid-2" || owners[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v", owners)
	}
	back := NewJob(job.Name, "uid-3", job.Labels, job.Annotations)
	if *back != (Job{Name: job.Name, UID: "uid-3", Roll: p.Roll, Action: Install, Node: "worker-1", NodeUID: "uid-1", Version: "v2", Section: p.Section}) {
		t.Errorf("read back as %+v", back)
	}
	if back.PodSelector() != RollLabel+"=0123456789,"+NodeLabel+"=worker-1" {
		t.Errorf("selector %s", back.PodSelector())
	}
	pod := job.Spec.Template
	if pod.Labels[RollLabel] != p.Roll || pod.Labels["app"] == "" || pod.Annotations[NodeNameAnnotation] != "worker-1" || len(pod.Spec.Tolerations) != 1 {
		t.Errorf("pod %+v", pod)
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 0 || len(terms[0].MatchFields) != 1 || terms[0].MatchFields[0].Key != "metadata.name" ||
		terms[0].MatchFields[0].Values[0] != "worker-1" {
		t.Errorf("affinity %+v", terms)
	}
	if pod.Spec.InitContainers[0].Image != "other:1" || pod.Spec.Containers[0].Image != "installer:2" {
		t.Errorf("images %s, %s", pod.Spec.InitContainers[0].Image, pod.Spec.Containers[0].Image)
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["NODE_PARTITION_NODE"] != "worker-1" || env["NODE_PARTITION_ROLL"] != p.Roll || env["NODE_PARTITION_MONITOR_ARGS"] != "--a=$$(B)" ||
		env["MINE"] != "$(NODE_PARTITION_ROLL)" || env["NODE_PARTITION_TRIAL"] != "7m0s" {
		t.Errorf("environment %v", env)
	}
	if last := pod.Spec.Containers[0].Env; last[len(last)-1].Name != "MINE" {
		t.Error("the template's variables do not come last, so they cannot name ours")
	}
	if *job.Spec.BackoffLimit != 0 || *job.Spec.ActiveDeadlineSeconds != 17*60 {
		t.Errorf("%d retries, %d s", *job.Spec.BackoffLimit, *job.Spec.ActiveDeadlineSeconds)
	}
	other := template.For(&Node{Name: "worker-2", UID: "uid-4"}, p, Owner{})
	if job.Spec.Template.Spec.Containers[0].Env[0].Value != "worker-1" || other.Spec.Template.Spec.Containers[0].Env[0].Value != "worker-2" {
		t.Error("two Jobs share what is written")
	}
}

func TestTemplateRefused(t *testing.T) {
	t.Parallel()
	replace := func(old, text string) string {
		if !strings.Contains(aJob, old) {
			t.Fatalf("the template has no %q", old)
		}
		return strings.Replace(aJob, old, text, 1)
	}
	withoutContainers, _, _ := strings.Cut(aJob, "      containers:")
	for name, test := range map[string]struct{ text, want string }{
		"no Job":           {replace("kind: Job", "kind: Pod"), `kind: "Pod" of "batch/v1"; want Job of batch/v1`},
		"unknown field":    {replace("spec:\n", "spec:\n  retries: 3\n"), `unknown field "retries"`},
		"restarted":        {replace("Never", "OnFailure"), "want Never"},
		"repeated":         {replace("spec:\n", "spec:\n  backoffLimit: 3\n"), "spec.backoffLimit: 3; want 0"},
		"for several":      {replace("spec:\n", "spec:\n  parallelism: 2\n"), "want 1, or leave them out"},
		"suspended":        {replace("spec:\n", "spec:\n  suspend: true\n"), "would never run"},
		"removes itself":   {replace("spec:\n", "spec:\n  ttlSecondsAfterFinished: 60\n"), "spec.ttlSecondsAfterFinished: leave it out"},
		"names a node":     {replace("restartPolicy: Never", "restartPolicy: Never\n      nodeName: a"), "leave them out"},
		"short deadline":   {replace("spec:\n", "spec:\n  activeDeadlineSeconds: 600\n"), "want more than the trial of 10m0s"},
		"no deadline":      {replace("spec:\n", "spec:\n  activeDeadlineSeconds: 0\n"), "want 1 or more"},
		"no containers":    {withoutContainers, "has none"},
		"without an image": {aJob, "container keep: has no image; name one there, or give --image"},
	} {
		_, err := ParseTemplate("job.yaml", []byte(test.text), "", Install, settings(t, ""))
		if err == nil || !strings.HasPrefix(err.Error(), "job.yaml: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %s", name, err, test.want)
		}
	}
	if _, err := ParseTemplate("job.yaml", []byte(replace("spec:\n", "spec:\n  activeDeadlineSeconds: 600\n")), "i", Uninstall, settings(t, "")); err != nil {
		t.Errorf("a removal has no trial: %v", err)
	}
}
