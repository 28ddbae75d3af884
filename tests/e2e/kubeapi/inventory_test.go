//go:build node

package kubeapi

import (
	"context"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"node-partition.io/node-partition/internal/admission"
	"node-partition.io/node-partition/internal/kubeapi"
)

// administrator returns the monitor's client with the rights of the administrator.
func (c *cluster) administrator() *kubeapi.Client {
	c.t.Helper()
	admin := c.Config()
	client, err := kubeapi.New(c.kubeconfig(func(config *clientcmdapi.Config) {
		for user := range config.AuthInfos {
			config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
		}
	}))
	c.must(err)
	return client
}

// inventory: what check asks for as a kubelet's user, and as an administrator.
func inventory(c *cluster) {
	ctx, admin := c.t.Context(), c.administrator()
	c.node()
	c.other()
	const lacked = "inventory.workload.openshift.io/cores"
	for _, of := range []struct {
		name string
		ask  func(*kubeapi.Client) error
		want error // as a kubelet's user
	}{
		{"its Node", func(k *kubeapi.Client) error {
			lacking, err := k.NodeWithout(ctx, node, []string{lacked})
			if err == nil && !slices.Equal(lacking, []string{lacked}) {
				c.t.Errorf("the Node lacks %q", lacking)
			}
			return err
		}, nil},
		{"writing to its Node", func(k *kubeapi.Client) error { return k.NodeRights(ctx, node, false) }, nil},
		{"another Node", func(k *kubeapi.Client) error { _, err := k.NodeWithout(ctx, "two", nil); return err }, kubeapi.ErrForbidden},
		{"writing to another Node", func(k *kubeapi.Client) error { return k.NodeRights(ctx, "two", false) }, kubeapi.ErrForbidden},
		{"all Nodes", func(k *kubeapi.Client) error {
			lack, err := k.NodesWithout(ctx, "", []string{lacked})
			if err == nil && !slices.Contains(lack.All[lacked], node) {
				c.t.Errorf("%q lack the resource", lack.All)
			}
			return err
		}, kubeapi.ErrForbidden},
		{"policies", func(k *kubeapi.Client) error { _, err := k.Policy(ctx, "none"); return err }, kubeapi.ErrForbidden},
	} {
		c.t.Run(of.name, func(t *testing.T) {
			c := *c
			c.t = t
			c.want(of.ask(c.monitor), of.want)
			c.want(of.ask(admin), nil)
		})
	}
}

// bounds: a LimitRange with a bound of CPU refuses a converted pod. check sees the policy.
func bounds(c *cluster) {
	ctx, admin := c.t.Context(), c.administrator()
	cpu := func(text string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(text)} }
	for name, item := range map[string]v1.LimitRangeItem{
		"Container max":                  {Type: v1.LimitTypeContainer, Max: cpu("2")},
		"Container min":                  {Type: v1.LimitTypeContainer, Min: cpu("1m")},
		"Container maxLimitRequestRatio": {Type: v1.LimitTypeContainer, MaxLimitRequestRatio: cpu("9")},
		"Pod max":                        {Type: v1.LimitTypePod, Max: cpu("2")},
	} {
		made, err := c.admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "bounds-", Annotations: map[string]string{"workload.openshift.io/allowed": "management"},
		}}, metav1.CreateOptions{})
		c.must(err)
		try := func(ctx context.Context) error {
			pod, err := c.create(ctx, asking(made.Name))
			if err == nil {
				// It may stay.
				_ = c.admin.CoreV1().Pods(made.Name).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
			}
			return err
		}
		c.eventually("a pod is converted without a LimitRange", func(ctx context.Context) (bool, error) { return try(ctx) == nil, nil })
		_, err = c.admin.CoreV1().LimitRanges(made.Name).Create(ctx, &v1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{item}},
		}, metav1.CreateOptions{})
		c.must(err)
		c.eventually(name+" refuses a converted pod", func(ctx context.Context) (bool, error) { return try(ctx) != nil, nil })
	}
	if has, err := admin.Policy(ctx, admission.PolicyName); err != nil || has == nil || !has.Denies || has.Annotations[admission.TypesKey] == "" {
		c.t.Errorf("the policy: %+v, %v", has, err)
	}
	if has, err := admin.Policy(ctx, "another"); has != nil || err != nil {
		c.t.Errorf("another policy: %+v, %v", has, err)
	}
}
