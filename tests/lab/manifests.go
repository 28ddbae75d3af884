package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// CreateAll creates the objects of a file of manifests, all of which have no namespace, as kubectl
// create does. A field that the API server does not know is an error.
func (p *ControlPlane) CreateAll(ctx context.Context, manifests []byte) error {
	client, err := dynamic.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("create objects: %w", err)
	}
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	return EachObject(manifests, func(object *unstructured.Unstructured) error {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		if _, err := client.Resource(resource).Create(ctx, object, strict); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	})
}

// EachObject calls f with each object of a file of manifests, until it returns an error.
func EachObject(manifests []byte, f func(*unstructured.Unstructured) error) error {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var object unstructured.Unstructured
		if err := reader.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read manifests: %w", err)
		}
		if len(object.Object) == 0 { // a document of comments
			continue
		}
		if err := f(&object); err != nil {
			return err
		}
	}
}
