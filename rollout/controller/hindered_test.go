package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func answered(code int32) error {
	return fmt.Errorf("make the pod: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}})
}

// TestHindered: what will not be done soon is a reason of a condition, and what the next try may do
// is none.
func TestHindered(t *testing.T) {
	t.Parallel()
	for want, errs := range map[string][]error{
		"": {
			nil, errors.New("connection refused"), answered(http.StatusConflict), answered(http.StatusGone),
			answered(http.StatusTooManyRequests), answered(http.StatusServiceUnavailable),
		},
		notAllowed: {
			answered(http.StatusBadRequest), answered(http.StatusUnauthorized), answered(http.StatusForbidden),
			answered(http.StatusUnprocessableEntity), errors.Join(answered(http.StatusForbidden), answered(http.StatusConflict)),
		},
		requestFailed: {answered(http.StatusInternalServerError), answered(http.StatusGatewayTimeout)},
	} {
		for _, err := range errs {
			if got := hindered(err); got != want {
				t.Errorf("%v: %q; want %q", err, got, want)
			}
		}
	}
}

// TestEach: all are tried, and an error that the next try may mend does not hide a denial.
func TestEach(t *testing.T) {
	t.Parallel()
	codes, tried := []int32{http.StatusConflict, http.StatusForbidden, http.StatusConflict}, make(chan int32, 3)
	err := each(t.Context(), codes, func(_ context.Context, code int32) error {
		tried <- code
		return answered(code)
	})
	if len(tried) != len(codes) || hindered(err) != notAllowed {
		t.Errorf("%d of %d were tried: %v", len(tried), len(codes), err)
	}
}
