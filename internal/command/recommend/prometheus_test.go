package recommend

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadFleet: a Prometheus behind a password answers, and one that warns gives no number.
func TestReadFleet(t *testing.T) {
	t.Parallel()
	warning, gone, length := "", false, "25200"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		value := "272629760"
		switch query := r.FormValue("query"); {
		case gone && strings.HasPrefix(query, "quantile"), length == "" && strings.Contains(query, "(0.5, nodepartition_memory_measured_seconds"):
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
			return
		case strings.HasPrefix(query, "count"):
			value = "500"
		case strings.Contains(query, "(0.5, nodepartition_memory_measured_seconds"):
			value = length
		case strings.HasPrefix(query, "quantile"):
			value = "262144000"
		}
		fmt.Fprintf(w, `{"status":"success","warnings":[%s],"data":{"resultType":"vector","result":[{"metric":{"instance":"n\u001b","zone":"z"},"value":[1,"%s"]}]}}`, warning, value)
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "http.yaml")
	if err := os.WriteFile(config, []byte("basic_auth: {username: u, password: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := FleetOptions{URL: server.URL, By: "zone", HTTPConfig: config, Partition: "my-batch"}
	if err := o.Check(); err != nil {
		t.Error(err)
	}
	warning = `"PromQL info: metric might not be a counter"`
	a, err := ReadFleet(t.Context(), o)
	if err != nil || len(a.Shapes) != 1 || a.Shapes[0].LimitBytes != 260*mebi || a.Shapes[0].MostBytes != 250*mebi || a.Shapes[0].Shape != "z" ||
		len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], "z: half of the nodes have measured 7h00m or less") {
		t.Fatalf("%+v, %v", a, err)
	}
	var text bytes.Buffer
	if err := WriteFleetYAML(&text, a); err != nil || !strings.Contains(text.String(), "workloadPartitions:\n  my-batch:\n    memoryLimit: 260Mi") ||
		!strings.Contains(text.String(), "# 250Mi do for 9 in 10 of 500 nodes. Half of them have measured 7h00m or longer.\n") || strings.Contains(text.String(), "\x1b") {
		t.Errorf("%v\n%s", err, &text)
	}
	length = "604800"
	if a, err := ReadFleet(t.Context(), o); err != nil || len(a.Warnings) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	length = ""
	text.Reset()
	if a, err := ReadFleet(t.Context(), o); err != nil || WriteFleetYAML(&text, a) != nil || len(a.Shapes) != 1 || len(a.Warnings) != 1 ||
		!strings.HasPrefix(a.Warnings[0], "z: how long was measured is not known") || strings.Contains(text.String(), "Half of them") {
		t.Errorf("%+v, %v\n%s", a, err, &text)
	}
	gone = true // the last node of the shape, between two queries
	if a, err := ReadFleet(t.Context(), o); err != nil || len(a.Shapes) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	gone, warning = false, `"an upstream did not answer"`
	if _, err := ReadFleet(t.Context(), o); err == nil || !strings.Contains(err.Error(), "may not be complete: an upstream did not answer") {
		t.Errorf("%v", err)
	}
	o.HTTPConfig = ""
	if _, err := ReadFleet(t.Context(), o); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%v", err)
	}
	o.URL = strings.Replace(server.URL, "http://", "http://user:secret@", 1)
	if _, err := ReadFleet(t.Context(), o); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
