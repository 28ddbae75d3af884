package kubeapi

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rights are checked with the requests of an eviction, of a pod that does not exist, and
// nothing is changed.
func TestRights(t *testing.T) {
	t.Parallel()
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	gone := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	made := give(&metav1.Status{})
	for name, test := range map[string]struct {
		answers []answer // get, the patch as a dry run that follows a forbidden get, patch, create
		want    error
		text    string
	}{
		"all":                       {[]answer{gone, gone, made}, nil, ""},
		"as a kubelet sees it":      {[]answer{forbidden, gone, gone, made}, nil, ""},
		"none":                      {[]answer{forbidden}, ErrForbidden, "get pods"},
		"not to patch":              {[]answer{gone, forbidden}, ErrForbidden, "patch pods/status"},
		"not to create events":      {[]answer{gone, gone, forbidden}, ErrForbidden, "create events"},
		"nobody":                    {[]answer{refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)}, ErrCredentials, "expired?"},
		"overloaded in the middle ": {[]answer{gone, refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)}, ErrUnreachable, "patch"},
	} {
		s := newAPIServer(t, test.answers...)
		err := newTestClient(t, s.URL).Rights(t.Context(), "kube-system")
		if test.want == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else {
			wantError(t, err, test.want, test.text)
		}
		for _, line := range s.lines() {
			if !strings.HasPrefix(line, "GET ") && !strings.Contains(line, "dryRun=All") {
				t.Errorf("%s: %s is no dry run", name, line)
			}
		}
	}
}
