package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodepartition/internal/kubeanswer"
)

// Kinds of errors, for errors.Is. An error of no kind belongs to a request that the API server does
// not accept.
var (
	// ErrAway means that the API server did not answer in time, or cannot now, or does not know the
	// user. Another attempt may succeed: a token is renewed by the kubelet.
	ErrAway = errors.New("the API server cannot be reached, is overloaded or does not know the user")
	// errForbidden means that the user lacks a right. It lasts until somebody grants it.
	errForbidden = errors.New("not allowed")
	// ErrGone means that the object does not exist, or that another one has its name.
	ErrGone = errors.New("it is gone")
	// ErrChanged means that the object exists already, or that somebody has changed it.
	ErrChanged = errors.New("it has changed")
	// errExpired means that a watch or a list cannot go on from where it was.
	errExpired = errors.New("the version is too old")
)

// failed adds the request and the kind of the error to err.
func (c *Client) failed(what, name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	kind := kindOf(err)
	if wrapper := (*url.Error)(nil); errors.As(err, &wrapper) {
		err = wrapper.Err // without the address, which follows
	}
	if kind != nil {
		err = fmt.Errorf("%w: %w", kind, err)
	}
	if errors.Is(kind, errForbidden) {
		err = fmt.Errorf("%w; the ServiceAccount of the dispatcher needs the right to %s", err, what)
	}
	return fmt.Errorf("API server %s: %s %s: %w", c.server, what, name, err)
}

// kindOf returns the sentinel of an error, nil if it has none.
func kindOf(err error) error {
	switch {
	case kubeanswer.Away(err), apierrors.IsUnauthorized(err), kubeanswer.FromAnother(err):
		return ErrAway
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return errExpired
	case apierrors.IsNotFound(err):
		return ErrGone
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return ErrChanged
	case apierrors.IsForbidden(err):
		return errForbidden
	}
	return nil
}
