package web

import (
	"errors"
	"fmt"
	"net/http"
)

// health answers "ok", or 503 with a line for each problem.
func health(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// ready tells what is missing until pods are where they belong, or are on their way there.
func (o Options) ready() error {
	var problems []error
	if o.Reports.Report().Time.IsZero() {
		problems = append(problems, errors.New("the first pass over the pods has not ended"))
	}
	connected := o.Sources()
	for _, source := range o.Needed {
		if !connected[source] {
			problems = append(problems, fmt.Errorf("no connection to %s", source))
		}
	}
	return errors.Join(problems...)
}
