package kubeapi

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policy holds what is read of a ValidatingAdmissionPolicy.
type Policy struct {
	Annotations map[string]string
	// Denies means that a binding of the policy's name makes it deny requests. Without one it has no
	// effect.
	Denies bool
}

// Policy returns a ValidatingAdmissionPolicy by its name, nil if there is none.
func (c *Client) Policy(ctx context.Context, name string) (*Policy, error) {
	var policy metav1.PartialObjectMetadata
	var binding struct {
		Spec struct {
			ValidationActions []string `json:"validationActions"`
		} `json:"spec"`
	}
	for _, of := range []struct {
		plural string
		into   any
	}{{"validatingadmissionpolicies", &policy}, {"validatingadmissionpolicybindings", &binding}} {
		request := c.rest.Get().AbsPath("/apis/admissionregistration.k8s.io/v1", of.plural, name)
		err := c.read(ctx, "get "+of.plural+"/"+name, "get "+of.plural, request, of.into)
		switch absent := errors.Is(err, ErrGone); {
		case absent && of.into == &policy:
			return nil, nil
		case err != nil && !absent:
			return nil, err
		}
	}
	//guard: a policy whose binding does not deny guards nothing
	return &Policy{policy.Annotations, slices.Contains(binding.Spec.ValidationActions, "Deny")}, nil
}
