//go:build labcommand

package lab

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
)

// apiClient takes the place of a client in the lab's command, which starts no control plane.
type apiClient struct{}

var errNoClient = errors.New("the lab was built without a client of the API server (labcommand)")

func newAPIClient(*rest.Config) (apiClient, error) { return apiClient{}, errNoClient }

func (*ControlPlane) ready(context.Context) (bool, string, error) { return false, "", errNoClient }

func (*ControlPlane) nodeReady(context.Context, string) (bool, string, error) {
	return false, "", errNoClient
}
