// Package manifest writes what an installation has of the Go code: the definition of NodePartition,
// and the policy of the pods of nodes. "go test ./manifest -update" writes the files of the chart.
package manifest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"node-partition.io/node-partition/internal/installer/record"
	"node-partition.io/node-partition/rollout/api/v1alpha1"
	"node-partition.io/node-partition/rollout/nodepod"
	"node-partition.io/node-partition/rollout/plan"
	"node-partition.io/node-partition/rollout/section"
)

// The values of an installation, as the chart has them.
var values = map[string]string{
	"@image@":         `{{ include "node-partition.image" . }}`,
	"@version@":       `{{ .Chart.AppVersion }}`,
	"@pullPolicy@":    `{{ .Values.image.pullPolicy }}`,
	"@priorityClass@": `{{ .Values.nodePods.priorityClassName }}`,
	"@appArmor@":      `{{ .Values.nodePods.appArmorProfile }}`,
}

// seLinux is in the policy only if it is set.
var seLinux = regexp.MustCompile(`"seLinuxOptions": dyn\(\{"type": dyn\("@seLinux@"\)\}\), `)

const seLinuxIfSet = `{{ with .Values.nodePods.seLinuxType }}"seLinuxOptions": dyn({"type": dyn("{{ . }}")}), {{ end }}`

// The fields of a pod that the API server fills in, and those that are free.
var (
	defaulted = map[string]any{"schedulerName": "default-scheduler", "serviceAccount": nodepod.ServiceAccount}
	free      = []string{
		"tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "priority", "preemptionPolicy",
		"imagePullSecrets",
	}
)

// validation is one of the policy.
type validation struct{ expression, message string }

// podValidations compares a pod with the template, field by field. A field that the template does
// not have is refused, whatever it is called.
func podValidations() ([]validation, error) {
	s := nodepod.Settings{
		Image: "@image@", Version: "@version@", PullPolicy: "@pullPolicy@", PriorityClass: "@priorityClass@",
		AppArmor: "@appArmor@", SELinuxType: "@seLinux@",
	}
	pod := nodepod.Of(s, &v1alpha1.NodePartition{}, section.Section{}, "", plan.Start{Node: "@node@", Mode: plan.Apply})
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		return nil, err
	}
	container, ok := spec["containers"].([]any)[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the template has no container")
	}
	fixed := map[string]any{}
	for key, value := range spec {
		if !slices.Contains(free, key) && key != "containers" && key != "priorityClassName" {
			fixed[key] = value
		}
	}
	for key, value := range defaulted {
		fixed[key] = value
	}
	delete(container, "args")
	all := []validation{
		{`request.operation == 'CREATE' && request.?subResource.orValue('') == ''`, "the controller makes pods, and does not change them"},
		{`request.namespace == '{{ .Release.Namespace }}'`, "the controller makes pods in the namespace {{ .Release.Namespace }} alone"},
		{`!has(object.metadata.ownerReferences) && !has(object.metadata.finalizers)`, "the pod of a node has neither owners nor finalizers"},
		{only("object.spec", slices.Concat(keys(fixed), free, []string{"containers", "priorityClassName"})), "the pod of a node has a field that the template does not have"},
		{`size(object.spec.containers) == 1`, "the pod of a node has one container"},
		{only("object.spec.containers[0]", append(keys(container), "args")), "the container has a field that the template does not have"},
		{argsExpression, "the arguments are not those of the template"},
		{`dyn(object.spec).?priorityClassName.orValue('') == '@priorityClass@'`, "priorityClassName is not that of the template"},
	}
	for _, of := range []struct {
		path   string
		fields map[string]any
	}{{"object.spec", fixed}, {"object.spec.containers[0]", container}} {
		for _, key := range keys(of.fields) {
			text, err := literal(of.fields[key])
			if err != nil {
				return nil, err
			}
			text = strings.ReplaceAll(text, `"@node@"`, "variables.node")
			is := fmt.Sprintf("dyn(%s).%s == %s", of.path, key, text)
			all = append(all, validation{is, key + " is not that of the template"})
		}
	}
	return all, nil
}

// literal returns a value in CEL, which is as in JSON. A list and a map of CEL have values of one
// type, which dyn makes.
func literal(value any) (string, error) {
	var parts []string
	add := func(before string, value any) error {
		text, err := literal(value)
		parts = append(parts, before+"dyn("+text+")")
		return err
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range keys(value) {
			if err := add(strconv.Quote(key)+": ", value[key]); err != nil {
				return "", err
			}
		}
		return "{" + strings.Join(parts, ", ") + "}", nil
	case []any:
		for _, v := range value {
			if err := add("", v); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// argsExpression compares the arguments: only what differs from node to node is free, in its form.
const argsExpression = `variables.node.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$') && variables.args[2] == '--version=@version@' && ` +
	`(variables.args[0] == 'remove' && size(variables.args) == 3 || variables.args[0] == 'apply' && size(variables.args) == 8 && ` +
	`variables.args[3] == '--section=/section/section.yaml' && variables.args[4].matches('^--section-sha256=[0-9a-f]{64}$') && ` +
	`variables.args[5].matches('^--trial=[0-9hms]{1,16}$') && ` +
	`variables.args[6].matches(r'^--monitor-args=` + record.MonitorArgs + `$') && ` +
	`variables.args[7] in ['--survey=false', '--survey=true'])`

// only is true if an object has no other fields.
func only(path string, fields []string) string {
	slices.Sort(fields)
	return fmt.Sprintf("dyn(%s).all(k, k in ['%s'])", path, strings.Join(fields, "', '"))
}

func keys(m map[string]any) []string {
	all := make([]string, 0, len(m))
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// PodPolicy returns the validations as the chart's template has them.
func PodPolicy() (string, error) {
	all, err := podValidations()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("{{/* Written by go test ./manifest -update, from the template of package nodepod. */}}\n")
	b.WriteString("{{- define \"node-partition.pod-validations\" -}}\n")
	for _, v := range all {
		fmt.Fprintf(&b, "- expression: >-\n    %s\n  message: %s\n", v.expression, v.message)
	}
	b.WriteString("{{- end }}\n")
	text := seLinux.ReplaceAllString(b.String(), seLinuxIfSet)
	for token, value := range values {
		text = strings.ReplaceAll(text, token, value)
	}
	return text, nil
}
