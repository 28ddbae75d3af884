package config

import (
	"errors"
	"fmt"

	"nodepartition/internal/oneline"
)

// problem is one thing that is wrong with the configuration, or with the node for it.
type problem struct {
	// File is where to change it.
	File string
	// Field is the path of the field in File, such as systemPartition.memoryLimit. Empty where the node is at fault.
	Field string
	// Value is what was found there, ready for printing: quoted and shortened. Empty for something missing.
	Value string
	// Why says what is wrong and what is allowed.
	Why string
}

func (p *problem) Error() string {
	switch {
	case p.Field == "":
		return fmt.Sprintf("%s: %s", p.File, p.Why)
	case p.Value == "":
		return fmt.Sprintf("%s: %s: %s", p.File, p.Field, p.Why)
	default:
		return fmt.Sprintf("%s: %s: %s: %s", p.File, p.Field, p.Value, p.Why)
	}
}

// problems collects what is wrong, so that an operator sees all of it at once.
type problems []error

func (l *problems) add(file, field, value, format string, args ...any) {
	*l = append(*l, &problem{File: file, Field: field, Value: value, Why: fmt.Sprintf(format, args...)})
}

func (l problems) err() error { return errors.Join(l...) }

func quote(s string) string { return oneline.Quote(s) }

// Problems takes apart what errors.Join put together: each problem gets a line of its own.
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
