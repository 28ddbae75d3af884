package kubeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Kinds of errors, for errors.Is. An error of no kind belongs to a request that the API server does
// not accept.
var (
	// ErrForbidden means that the user of the kubeconfig lacks a permission. It lasts until an
	// operator grants it.
	ErrForbidden = errors.New("not allowed")
	// ErrCredentials means that there is no authenticated user: the API server does not accept the
	// credentials, or a plugin gave none. It also means that the API server's certificate is not from
	// the kubeconfig's certificate authority.
	ErrCredentials = errors.New("no valid credentials")
	// ErrGone means that the pod, the event or the node no longer exists, that another pod has its
	// name, or that its namespace is being deleted.
	ErrGone = errors.New("it is gone")
	// ErrStatic means that the pod in the API is the mirror of a static pod.
	ErrStatic = errors.New("a static pod, whose status only its kubelet can change")
	// ErrNoClient means that there is no kubeconfig yet.
	ErrNoClient = errors.New("without a kubeconfig")
	// ErrUnreachable means that the API server did not answer in time, or cannot now. Another attempt
	// may succeed.
	ErrUnreachable = errors.New("the API server cannot be reached or is overloaded")
)

// failed adds the request, the kind of the error and a hint for the operator to err.
func (c *Client) failed(what, namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	hint, kind := c.explain(err)
	if wrapper := (*url.Error)(nil); errors.As(err, &wrapper) {
		err = wrapper.Err // without the address, which about adds
	}
	if kind != nil {
		err = fmt.Errorf("%w: %w%s", kind, err, hint)
	}
	return c.about(what, namespace, name, err)
}

func (c *Client) about(what, namespace, name string, err error) error {
	return fmt.Errorf("API server %s: %s %s/%s: %w", c.server, what, namespace, name, err)
}

// explain returns a hint for the operator about an error, and its sentinel, nil if it has none.
func (c *Client) explain(err error) (hint string, sentinel error) {
	switch {
	case errors.Is(err, context.Canceled):
		return "", nil
	case noAnswer(err) && pluginFailed(err):
		return c.pluginHint(), ErrCredentials
	case noAnswer(err) && errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Sprintf(
			"; is %s from another cluster, or does the cluster have a new certificate authority? Create it again (kubeadm join), or name "+
				"another with --kubeconfig",
			c.kubeconfig,
		), ErrCredentials
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errLeft):
		return c.pluginHint(), ErrUnreachable
	case away(err):
		return "", ErrUnreachable
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		// Creating an object in a namespace that is being deleted is "forbidden", too
		// (NamespaceLifecycle).
		return "", ErrGone
	case apierrors.IsForbidden(err):
		return fmt.Sprintf(
			"; the user of %s needs get of pods, patch of pods/status, create and patch of events, and for "+
				"--node-status and workload types patch of nodes/status, as kubelets have it for their node and its pods: grant it, or name another kubeconfig with --kubeconfig",
			c.kubeconfig,
		), ErrForbidden
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("; has the certificate or token of %s expired?", c.kubeconfig), ErrCredentials
	}
	return "", nil
}

// pluginHint returns a hint if there is a credential plugin, which may fail here and not in the
// kubelet.
func (c *Client) pluginHint() string {
	if c.plugin == "" {
		return ""
	}
	return fmt.Sprintf(
		"; %s gets its credentials from the program %s, which runs in the sandbox of partition-monitor.service here: "+
			"allow what it needs with \"systemctl edit partition-monitor.service\", or name a kubeconfig with a certificate with --kubeconfig",
		c.kubeconfig,
		c.plugin,
	)
}

// pluginFailed reports whether a credential plugin failed. client-go has no type for it
// (roundTripper.RoundTrip, k8s.io/client-go/plugin/pkg/client/auth/exec v0.37.0).
func pluginFailed(err error) bool { return strings.Contains(err.Error(), "getting credentials: ") }
