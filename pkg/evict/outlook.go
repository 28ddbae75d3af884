package evict

import (
	"errors"
	"time"
)

// Outlook is for people: who would be evicted next, and who was evicted.
type Outlook struct {
	// Settings holds the settings for the limit in force.
	Settings
	// Order lists the pods of the partition in eviction order. It is empty before the first poll.
	Order []Candidate
	// Open lists the evictions in progress, and Last those that have ended, the newest last.
	Open, Last []Eviction
}

// Outlook reads the usage of each pod of the partition, and ranks the pods by the memory that the
// last poll has read. It evicts none. It reads three files for each pod, so that a caller asks once
// in a few seconds at most. The error lists what could not be read, and the Outlook has the rest.
func (m *Manager) Outlook() (Outlook, error) {
	history, err := m.Store.Read()
	problems := []error{err}
	report := m.Report()
	s := Situation{
		Now: time.Now(), Config: m.present(), Memory: report.Memory, API: m.API.Available(),
		State: State{Cooldown: history.Cooldown, Stays: history.Stays},
	}
	o := Outlook{Settings: s.Config, Open: history.Open, Last: history.Last}
	if report.Time.IsZero() {
		return o, errors.Join(problems...)
	}
	s.Pods = Measure(m.Cgroups, m.Pods(), func(err error) { problems = append(problems, err) })
	s.Ownerless = Ownerless(s.Memory.Used(), s.Pods)
	o.Settings, o.Order = s.Effective(), Decide(s).Order
	return o, errors.Join(problems...)
}
