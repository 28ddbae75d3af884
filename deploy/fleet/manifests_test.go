package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1" //nolint:staticcheck // it is served
	kubeadmv1beta2 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TestClusterAPI: the types of Cluster API take the template, in both versions that it serves.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	text := read(t, "cluster-api/kubeadmconfigtemplate.yaml")
	now := strict[kubeadmv1beta2.KubeadmConfigTemplate](t, text)
	if now.APIVersion != kubeadmv1beta2.GroupVersion.String() || now.Kind != "KubeadmConfigTemplate" {
		t.Errorf("it is %s %s", now.APIVersion, now.Kind)
	}
	strict[kubeadmv1beta1.KubeadmConfigTemplate](t, strings.Replace(text, "/v1beta2", "/v1beta1", 1))
	if len(now.Spec.Template.Spec.PreKubeadmCommands) != 1 || len(now.Spec.Template.Spec.Files) != 2 {
		t.Errorf("want one command and two files: %+v", now.Spec.Template.Spec)
	}
}

// sectionOfTemplate returns the section in the template for Cluster API.
func sectionOfTemplate(t *testing.T) string {
	t.Helper()
	template := strict[kubeadmv1beta2.KubeadmConfigTemplate](t, read(t, "cluster-api/kubeadmconfigtemplate.yaml"))
	for _, f := range template.Spec.Template.Spec.Files {
		if f.Path == sectionPath {
			return f.Content
		}
	}
	t.Fatalf("no file %s", sectionPath)
	return ""
}

// preKubeadm returns the commands of the template for Cluster API.
func preKubeadm(t *testing.T) []string {
	t.Helper()
	template := strict[kubeadmv1beta2.KubeadmConfigTemplate](t, read(t, "cluster-api/kubeadmconfigtemplate.yaml"))
	return template.Spec.Template.Spec.PreKubeadmCommands
}

// nodeClass is the file for Karpenter.
const nodeClass = "karpenter/ec2nodeclass.yaml"

// karpenter is the version of Karpenter for AWS whose schema is asked.
const karpenter = "github.com/aws/karpenter-provider-aws@v1.8.6"

// TestEC2NodeClass: the schema of Karpenter for AWS takes the object. Its rules in CEL are not
// evaluated.
func TestEC2NodeClass(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "mod", "download", "-json", karpenter).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	crd := strict[apiextensionsv1.CustomResourceDefinition](t,
		read(t, filepath.Join(module.Dir, "pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml")))
	object := strict[map[string]any](t, read(t, nodeClass))
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return crd.Spec.Group+"/"+v.Name == object["apiVersion"]
	})
	if i < 0 || object["kind"] != crd.Spec.Names.Kind {
		t.Fatalf("no version of %s is %v", crd.Name, object["apiVersion"])
	}
	schema := *crd.Spec.Versions[i].Schema.OpenAPIV3Schema
	schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}
	for _, problem := range problems(schema, object, "") {
		t.Error(problem)
	}
	spec := object["spec"].(map[string]any)
	spec["userdata"] = spec["userData"]
	if got := problems(schema, object, ""); len(got) != 1 {
		t.Errorf("an unknown field is one problem: %q", got)
	}
}

// problems lists how a value differs from a schema: types, fields that are unknown or missing,
// enums, patterns and numbers of items. The formats of CRDs are few, and no rule in CEL is
// evaluated.
func problems(s apiextensionsv1.JSONSchemaProps, value any, path string) []string {
	if s.XPreserveUnknownFields != nil {
		return nil
	}
	var found []string
	wrong := func(format string, args ...any) {
		found = append(found, path+": "+fmt.Sprintf(format, args...))
	}
	if len(s.Enum) > 0 {
		text, _ := json.Marshal(value)
		if !slices.ContainsFunc(s.Enum, func(e apiextensionsv1.JSON) bool { return string(e.Raw) == string(text) }) {
			wrong("%s is none of its values", text)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				wrong("%s is missing", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			field, known := s.Properties[name]
			switch {
			case known:
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				field = *s.AdditionalProperties.Schema
			default:
				wrong("%s is unknown", name)
				continue
			}
			found = append(found, problems(field, v[name], path+"."+name)...)
		}
		if s.Type != "object" {
			wrong("want %s", s.Type)
		}
	case []any:
		if s.Type != "array" || s.Items == nil || s.Items.Schema == nil {
			wrong("want %s", s.Type)
			break
		}
		if s.MaxItems != nil && int64(len(v)) > *s.MaxItems || s.MinItems != nil && int64(len(v)) < *s.MinItems {
			wrong("%d items", len(v))
		}
		for i, item := range v {
			found = append(found, problems(*s.Items.Schema, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case string:
		if s.Type != "string" && !s.XIntOrString {
			wrong("%q: want %s", v, s.Type)
		}
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
			wrong("%q does not match %s", v, s.Pattern)
		}
	case bool:
		if s.Type != "boolean" {
			wrong("want %s", s.Type)
		}
	default:
		if s.Type != "integer" && s.Type != "number" && !s.XIntOrString {
			wrong("%v: want %s", v, s.Type)
		}
	}
	return found
}

// partsOf returns the parts of the user data for Karpenter that have a type. Karpenter and nodeadm
// read it with the same packages of Go.
func partsOf(t *testing.T, mediaType string) []string {
	t.Helper()
	object := strict[struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            map[string]any    `json:"spec"`
	}](t, read(t, nodeClass))
	userData, _ := object.Spec["userData"].(string)
	message, err := mail.ReadMessage(strings.NewReader(userData))
	if err != nil {
		t.Fatal(err)
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF { //nolint:errorlint // NextPart returns it as it is
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); got == mediaType {
			parts = append(parts, string(body))
		}
	}
	if len(parts) != 1 {
		t.Fatalf("%d parts have the type %s, want 1", len(parts), mediaType)
	}
	return parts
}

// TestNodeConfig: the part for nodeadm has its fields, by a copy of their names: its module is of
// 2024 in the module proxy.
func TestNodeConfig(t *testing.T) {
	t.Parallel()
	config := strict[struct {
		APIVersion, Kind string
		Spec             struct {
			Containerd struct{ Config string }
			Kubelet    struct {
				Config map[string]any
				Flags  []string
			}
		}
	}](t, partsOf(t, "application/node.eks.aws")[0])
	if config.APIVersion != "node.eks.aws/v1alpha1" || config.Kind != "NodeConfig" || config.Spec.Containerd.Config == "" {
		t.Errorf("%+v", config)
	}
}

// TestPlan: the Plan has the fields of the system-upgrade-controller, by a copy of their names: its
// module cannot be had.
func TestPlan(t *testing.T) {
	t.Parallel()
	plan := strict[struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			Concurrency           int64                `json:"concurrency"`
			JobActiveDeadlineSecs int64                `json:"jobActiveDeadlineSecs"`
			NodeSelector          metav1.LabelSelector `json:"nodeSelector"`
			ServiceAccountName    string               `json:"serviceAccountName"`
			Version               string               `json:"version"`
			PostCompleteDelay     metav1.Duration      `json:"postCompleteDelay"`
			Secrets               []struct {
				Name string `json:"name"`
				Path string `json:"path"`
			} `json:"secrets"`
			Upgrade struct {
				Image   string   `json:"image"`
				Command []string `json:"command"`
				Args    []string `json:"args"`
			} `json:"upgrade"`
		} `json:"spec"`
	}](t, read(t, "k3s/plan.yaml"))
	if plan.APIVersion != "upgrade.cattle.io/v1" || plan.Kind != "Plan" {
		t.Errorf("it is %s %s", plan.APIVersion, plan.Kind)
	}
	if _, err := metav1.LabelSelectorAsSelector(&plan.Spec.NodeSelector); err != nil {
		t.Error(err)
	}
	if !strings.Contains(read(t, "k3s/roll.sh"), "\nversion="+plan.Spec.Version+"\n") {
		t.Errorf("roll.sh has another version than %s", plan.Spec.Version)
	}
	if out, err := exec.Command("sh", "-nec", plan.Spec.Upgrade.Args[0]).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
