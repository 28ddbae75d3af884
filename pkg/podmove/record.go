package podmove

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"node-partition.io/node-partition/internal/cgroups"
	"node-partition.io/node-partition/internal/host"
)

// record holds what passes have set on cgroups that others made. A monitor that starts again reads
// it from its file: what is configured may have changed while none ran.
type record struct {
	// Raised is the protected memory that kubepods.slice may have for the floors of partitions.
	Raised cgroups.Protection `json:"raised"`
	CPURecord
}

// recordFile is the form of a record in its file.
type recordFile struct {
	Version int `json:"version"`
	record
}

// recordVersion is the version of the file.
const recordVersion = 1

// readRecord reads a record. A file that is missing or broken counts as none: a reconcile learns
// the figures from the kubelet, and leaves values alone that it does not know.
func readRecord(path string) record {
	var file recordFile
	if host.ReadStateVersion(path, recordVersion, &file) != nil {
		return record{}
	}
	return file.record
}

// recall reads what an earlier process has recorded.
func (r *Reconciler) recall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.options.RecordFile != "" {
		r.recorded = readRecord(r.options.RecordFile)
		r.stored = r.recorded
	}
}

// record replaces the record, and the file if it differs.
func (r *Reconciler) record(next record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = next
	if equality.Semantic.DeepEqual(r.stored, next) {
		return nil
	}
	if path := r.options.RecordFile; path != "" {
		if err := host.WriteState(path, recordFile{recordVersion, next}, 0o600); err != nil {
			return fmt.Errorf("recording what was set on cgroups of others: %w", err)
		}
	}
	r.stored = next
	return nil
}
