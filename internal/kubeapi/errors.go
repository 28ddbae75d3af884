package kubeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What can be wrong, for errors.Is. An error that is none of these is one of a request that the API server does not take.
var (
	// ErrForbidden says that the user of the kubeconfig may not do it. It stays so until somebody grants it.
	ErrForbidden = errors.New("not allowed")
	// ErrCredentials says that there is no user: the API server does not know the credentials, or a plugin did not give any; or that the
	// API server is not the one of the kubeconfig's certificate authority.
	ErrCredentials = errors.New("no valid credentials")
	// ErrGone says that the pod is not there any more, or another one of its name, or that its namespace is going.
	ErrGone = errors.New("the pod is gone")
	// ErrStatic says that the pod in the API is the mirror of a static pod.
	ErrStatic = errors.New("a static pod, whose status only its kubelet can change")
	// ErrUnreachable says that the API server did not answer in time, or that it cannot now: it is worth trying again.
	ErrUnreachable = errors.New("the API server cannot be reached or is overloaded")
)

// failed says what a request was for, what is wrong, and what to change.
func (c *Client) failed(what, namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	hint, kind := c.explain(err)
	if wrapper := (*url.Error)(nil); errors.As(err, &wrapper) {
		err = wrapper.Err // without the address, which is there already
	}
	if kind != nil {
		err = fmt.Errorf("%w: %w%s", kind, err, hint)
	}
	return c.about(what, namespace, name, err)
}

func (c *Client) about(what, namespace, name string, err error) error {
	return fmt.Errorf("API server %s: %s %s/%s: %w", c.server, what, namespace, name, err)
}

// explain returns what to do about an error, and its sentinel, nil if it has none.
func (c *Client) explain(err error) (hint string, sentinel error) {
	switch {
	case errors.Is(err, context.Canceled):
		return "", nil
	case unanswered(err) && pluginFailed(err):
		return c.pluginHint(), ErrCredentials
	case unanswered(err) && errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Sprintf("; is %s of another cluster, or has the cluster another certificate authority now? Have it made anew (kubeadm join), or name "+
			"another with --kubeconfig", c.kubeconfig), ErrCredentials
	case errors.Is(err, context.DeadlineExceeded):
		return c.pluginHint(), ErrUnreachable
	case unanswered(err), code(err) == http.StatusTooManyRequests, code(err) >= http.StatusInternalServerError:
		return "", ErrUnreachable
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		// To create something in a namespace that is being deleted is "forbidden", too (NamespaceLifecycle).
		return "", ErrGone
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("; the user of %s needs get of pods, patch of pods/status and create of events, as kubelets have it for "+
			"the pods of their node: grant it, or name another kubeconfig with --kubeconfig", c.kubeconfig), ErrForbidden
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("; has the certificate or token of %s expired?", c.kubeconfig), ErrCredentials
	}
	return "", nil
}

// pluginHint is for those who have a credential plugin, which may fail here and not with the kubelet.
func (c *Client) pluginHint() string {
	if c.plugin == "" {
		return ""
	}
	return fmt.Sprintf("; %s gets its credentials from the program %s, which runs in the sandbox of partition-monitor.service here: "+
		"allow what it needs with \"systemctl edit partition-monitor.service\", or name a kubeconfig with a certificate with --kubeconfig",
		c.kubeconfig, c.plugin)
}

// unanswered reports whether there was no answer of an API server: it was not reached, or not in time.
func unanswered(err error) bool { return err != nil && code(err) == 0 }

// code returns the HTTP status that the API server answered with, 0 if it did not.
func code(err error) int32 {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// pluginFailed reports whether a credential plugin failed. client-go has no type for it (roundTripper.RoundTrip,
// k8s.io/client-go/plugin/pkg/client/auth/exec v0.37.0).
func pluginFailed(err error) bool { return strings.Contains(err.Error(), "getting credentials: ") }
