//go:build node

package charttest

import (
	"io"
	"log/slog"
	"maps"
	"slices"
	"testing"

	action3 "helm.sh/helm/v3/pkg/action"
	loader3 "helm.sh/helm/v3/pkg/chart/loader"
	action4 "helm.sh/helm/v4/pkg/action"
	loader4 "helm.sh/helm/v4/pkg/chart/loader"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"node-partition.io/node-partition/tests/lab"
)

const release = "node-partition"

// helm has what an operator types.
type helm struct {
	install, upgrade func(tag string) error
	// rollback goes back to the revision before.
	rollback, uninstall func() error
}

func tagged(tag string) map[string]any { return map[string]any{"image": map[string]any{"tag": tag}} }

func helm3(t *testing.T, getter genericclioptions.RESTClientGetter) helm {
	t.Helper()
	c, err := loader3.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	config := new(action3.Configuration)
	if err := config.Init(getter, namespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	return helm{
		install: func(tag string) error {
			do := action3.NewInstall(config)
			do.ReleaseName, do.Namespace = release, namespace
			_, err := do.Run(c, tagged(tag))
			return err
		},
		upgrade: func(tag string) error {
			do := action3.NewUpgrade(config)
			do.Namespace = namespace
			_, err := do.Run(release, c, tagged(tag))
			return err
		},
		rollback:  func() error { return action3.NewRollback(config).Run(release) },
		uninstall: func() error { _, err := action3.NewUninstall(config).Run(release); return err },
	}
}

func helm4(t *testing.T, getter genericclioptions.RESTClientGetter) helm {
	t.Helper()
	c, err := loader4.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	config := action4.NewConfiguration(action4.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
	if err := config.Init(getter, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return helm{
		install: func(tag string) error {
			do := action4.NewInstall(config)
			do.ReleaseName, do.Namespace, do.WaitStrategy = release, namespace, "hookOnly"
			_, err := do.Run(c, tagged(tag))
			return err
		},
		upgrade: func(tag string) error {
			do := action4.NewUpgrade(config)
			do.Namespace, do.WaitStrategy = namespace, "hookOnly"
			_, err := do.Run(release, c, tagged(tag))
			return err
		},
		rollback: func() error {
			do := action4.NewRollback(config)
			do.WaitStrategy = "hookOnly"
			return do.Run(release)
		},
		uninstall: func() error {
			do := action4.NewUninstall(config)
			do.WaitStrategy = "hookOnly"
			_, err := do.Run(release)
			return err
		},
	}
}

// TestHelm: Helm 3 and 4 install the chart on an API server, upgrade it, go back and uninstall it.
// The same chart again changes no object. Another image changes the Deployment and the policy of
// its pods. A NodePartition and its definition outlive the uninstallation, and the next
// installation finds them.
func TestHelm(t *testing.T) {
	for version, of := range map[string]func(*testing.T, genericclioptions.RESTClientGetter) helm{"3": helm3, "4": helm4} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := lab.ControlPlaneForTest(t)
			if _, err := p.Client().CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			flags := genericclioptions.NewConfigFlags(false)
			flags.APIServer, flags.CacheDir = &p.Config().Host, new(t.TempDir())
			flags.WrapConfigFn = func(*rest.Config) *rest.Config { return p.Config() }
			h := of(t, flags)
			client, err := dynamic.NewForConfig(p.Config())
			if err != nil {
				t.Fatal(err)
			}
			// objects returns the resource versions of what the release has, by kind.
			objects := func() map[string]string {
				t.Helper()
				found := map[string]string{}
				for kind, resource := range releaseKinds {
					list, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release})
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range list.Items {
						found[kind+" "+o.GetName()] = o.GetResourceVersion()
					}
				}
				return found
			}
			last := map[string]string{}
			// then does a step, and compares the objects that it made, changed or deleted.
			then := func(what string, err error, want []string) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				now, changed := objects(), map[string]bool{}
				for name := range maps.Keys(now) {
					if now[name] != last[name] {
						changed[name] = true
					}
				}
				for name := range last {
					if now[name] == "" {
						changed[name] = true
					}
				}
				if got := slices.Sorted(maps.Keys(changed)); what != "install" && !slices.Equal(got, want) {
					t.Errorf("%s changed %q; want %q", what, got, want)
				}
				last = now
			}
			another := []string{"Deployment node-partition-rollout", "ValidatingAdmissionPolicy node-partition-rollout-pods"}
			then("install", h.install("v1"), nil)
			all := slices.Sorted(maps.Keys(last))
			t.Logf("%q", all)
			if _, err := client.Resource(nodePartitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "node-partition.io/v1alpha1", "kind": "NodePartition", "metadata": map[string]any{"name": "general"},
				"spec": map[string]any{"nodeSelector": map[string]any{}, "section": map[string]any{"systemPartition": map[string]any{"memoryLimit": "2Gi"}}},
			}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			then("upgrade to the same", h.upgrade("v1"), []string{})
			then("upgrade", h.upgrade("v2"), another)
			then("rollback", h.rollback(), another)
			then("uninstall", h.uninstall(), all)
			if _, err := client.Resource(nodePartitions).Get(t.Context(), "general", metav1.GetOptions{}); err != nil {
				t.Errorf("after the uninstallation: %v", err)
			}
			then("install again", h.install("v1"), all)
		})
	}
}

var nodePartitions = schema.GroupVersionResource{Group: "node-partition.io", Version: "v1alpha1", Resource: "nodepartitions"}

// releaseKinds has the resources of the chart with its default values.
var releaseKinds = map[string]schema.GroupVersionResource{
	"Deployment":                       {Group: "apps", Version: "v1", Resource: "deployments"},
	"ServiceAccount":                   {Version: "v1", Resource: "serviceaccounts"},
	"ClusterRole":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Role":                             {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ResourceQuota":                    {Version: "v1", Resource: "resourcequotas"},
	"NetworkPolicy":                    {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
}
