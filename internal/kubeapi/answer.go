package kubeapi

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noAnswer reports whether there was no answer: the API server was not reached, or not in time.
func noAnswer(err error) bool { return err != nil && code(err) == 0 }

// away reports whether the API server cannot serve the request now: there was no answer, or one
// that asks for another try.
func away(err error) bool {
	//guard: a 404 of another server does not say that an object is gone
	return noAnswer(err) || fromAnother(err) ||
		code(err) == http.StatusTooManyRequests || code(err) >= http.StatusInternalServerError
}

// code returns the HTTP status of the answer, 0 if there was none.
func code(err error) int32 {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// fromAnother reports whether another server has answered, such as a load balancer without an API
// server behind it, or one for which a node that thrashes was too slow (408). Credentials that it
// refuses are refused.
func fromAnother(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) &&
		!apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err)
}
