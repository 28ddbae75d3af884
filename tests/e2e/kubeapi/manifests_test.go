//go:build node

package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"node-partition.io/node-partition/tests/lab"
	"node-partition.io/node-partition/tests/testkit"
)

// TestManifests: an API server takes each object of the controller's installation, by install.yaml
// and by the chart with its full values, the examples of NodePartitions in the chart, and the
// objects for the Prometheus operator. Nothing of them is stored, and an unknown field is an error.
func TestManifests(t *testing.T) { manifestsOn(newCluster(t)) }

// TestManifestsVersions: so do older API servers.
func TestManifestsVersions(t *testing.T) {
	for _, minor := range lab.APIServers() {
		t.Run(minor, func(t *testing.T) { manifestsOn(clusterOf(t, lab.APIServerForTest(t, minor))) })
	}
}

func manifestsOn(c *cluster) {
	c.t.Helper()
	var paths []string
	for pattern, least := range map[string]int{
		"../../../rollout/install.yaml": 1, "../../../rollout/charttest/testdata/*.yaml": 1, "../../../deploy/prometheus/prometheusrule.yaml": 1, "../../../deploy/prometheus/scrapeconfig*.yaml": 2,
	} {
		found, err := filepath.Glob(pattern)
		c.must(err)
		if len(found) < least {
			c.t.Fatalf("%s: %d files, want %d", pattern, len(found), least)
		}
		paths = append(paths, found...)
	}
	c.addOperatorTypes()
	examples := c.examples()
	resources, err := restmapper.GetAPIGroupResources(c.Client().Discovery())
	c.must(err)
	d := &dryRun{cluster: c, mapper: restmapper.NewDiscoveryRESTMapper(resources)}
	if d.client, err = dynamic.NewForConfig(c.Config()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Run("examples", func(t *testing.T) {
		d.t = t
		if d.create(examples) < 2 {
			t.Error("there are no examples")
		}
	})
	for _, path := range paths {
		c.t.Run(filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d.t = t
			if d.create(data) == 0 {
				t.Error("no object was created")
			}
		})
	}
}

// operator is the version of the Prometheus operator whose types are added to an API server.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// addOperatorTypes gives an API server the types of the Prometheus operator, and waits until it
// serves them.
func (c *cluster) addOperatorTypes() {
	c.t.Helper()
	source := testkit.NeedModule(c.t, "", operator)
	for plural, version := range map[string]string{"prometheusrules": "v1", "scrapeconfigs": "v1alpha1", "podmonitors": "v1"} {
		c.addType(filepath.Join(source, "example/prometheus-operator-crd/monitoring.coreos.com_"+plural+".yaml"), plural, "monitoring.coreos.com/"+version)
	}
}

// addType gives an API server the type of a file, and waits until it serves it.
func (c *cluster) addType(file, plural, version string) {
	c.t.Helper()
	data, err := os.ReadFile(file)
	c.must(err)
	c.must(c.CreateAll(c.t.Context(), data))
	c.eventually(plural+" are served", func(context.Context) (bool, error) {
		served, err := c.Client().Discovery().ServerResourcesForGroupVersion(version)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }), nil
	})
}

// examples adds the type NodePartition, and returns the examples in the chart.
func (c *cluster) examples() []byte {
	c.t.Helper()
	const chart = "../../../rollout/chart/"
	c.addType(chart+"crds/nodepartitions.yaml", "nodepartitions", "node-partition.io/v1alpha1")
	data, err := os.ReadFile(chart + "Chart.yaml")
	c.must(err)
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	c.must(yaml.Unmarshal(data, &metadata))
	var examples []json.RawMessage
	c.must(yaml.Unmarshal([]byte(metadata.Annotations["artifacthub.io/crdsExamples"]), &examples))
	var all bytes.Buffer
	for _, e := range examples {
		fmt.Fprintf(&all, "---\n%s\n", e)
	}
	return all.Bytes()
}

// dryRun creates objects without storing them.
type dryRun struct {
	*cluster
	t      *testing.T
	mapper meta.RESTMapper
	client dynamic.Interface
}

// create creates the objects of a file, and returns their number.
func (d *dryRun) create(manifests []byte) (n int) {
	d.t.Helper()
	err := lab.EachObject(manifests, func(object *unstructured.Unstructured) error {
		n++
		d.createOne(object)
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *dryRun) createOne(object *unstructured.Unstructured) {
	d.t.Helper()
	kind := object.GroupVersionKind()
	mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		d.t.Errorf("%s %s: %v", kind, object.GetName(), err)
		return
	}
	ctx := d.t.Context()
	var client dynamic.ResourceInterface = d.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" { // as kubectl does
			object.SetNamespace(metav1.NamespaceDefault)
		}
		_, err := d.admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			d.t.Fatal(err)
		}
		client = d.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = client.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	// The namespace of the release is there, and the type of its examples.
	if err != nil && (!slices.Contains([]string{"Namespace", "CustomResourceDefinition"}, object.GetKind()) || !apierrors.IsAlreadyExists(err)) {
		d.t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}
