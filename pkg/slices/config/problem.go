package config

import (
	"errors"
	"fmt"
	"slices"

	"node-partition.io/node-partition/internal/text"
)

// Problem describes one error in the configuration, or one reason why the node cannot have a
// partition.
type Problem struct {
	// File is the file to change.
	File string
	// Field is the path of the field in File, such as systemPartition.memoryLimit. Empty if the node
	// is at fault.
	Field string
	// Value is the value found there, quoted and shortened for printing. Empty if the field is
	// missing.
	Value string
	// Why is the reason why the value is wrong, with the values that are allowed.
	Why string
}

func (p *Problem) Error() string {
	switch {
	case p.Field == "":
		return fmt.Sprintf("%s: %s", p.File, p.Why)
	case p.Value == "":
		return fmt.Sprintf("%s: %s: %s", p.File, p.Field, p.Why)
	default:
		return fmt.Sprintf("%s: %s: %s: %s", p.File, p.Field, p.Value, p.Why)
	}
}

// problems collects every problem, so that an operator sees them all at once.
type problems []error

func (l *problems) add(file, field, value, format string, args ...any) {
	*l = append(*l, &Problem{File: file, Field: field, Value: value, Why: fmt.Sprintf(format, args...)})
}

func (l problems) about(field string) bool {
	return slices.ContainsFunc(l, func(err error) bool {
		var p *Problem
		return errors.As(err, &p) && p.Field == field
	})
}

func (l problems) err() error { return errors.Join(l...) }

func quote(s string) string { return text.Quote(s) }

// Problems splits an error made by errors.Join, so that each problem gets a separate line.
func Problems(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, one := range joined.Unwrap() {
		list = append(list, Problems(one)...)
	}
	return list
}
