package main

import (
	"fmt"
	"regexp"
	"strings"
)

// choice selects top-level tests by -run and -skip, by the rules of the package testing (match.go):
// a pattern has alternatives, and an alternative has an element for each level of subtests.
type choice struct {
	run, skip []alternative
}

// alternative has an element for a test, its subtest, and so on.
type alternative struct {
	pattern  string
	elements []*regexp.Regexp
}

// deep reports whether it has an element for subtests.
func (a alternative) deep() bool { return len(a.elements) > 1 }

// matches reports whether each element matches its part of the name of a test or subtest.
func (a alternative) matches(name string) bool {
	parts := strings.SplitN(name, "/", len(a.elements))
	if len(parts) < len(a.elements) {
		return false
	}
	for i, e := range a.elements {
		if !e.MatchString(parts[i]) {
			return false
		}
	}
	return true
}

func newChoice(run, skip string) (choice, error) {
	var c choice
	var err error
	if c.run, err = alternatives(run); err != nil {
		return c, fmt.Errorf("-run=%s: %w", run, err)
	}
	if skip != "" {
		if c.skip, err = alternatives(skip); err != nil {
			return c, fmt.Errorf("-skip=%s: %w", skip, err)
		}
	}
	return c, nil
}

// chooses reports whether a test runs, if only for some of its subtests.
func (c choice) chooses(name string) bool {
	for _, a := range c.skip {
		if !a.deep() && a.matches(name) {
			return false
		}
	}
	for _, a := range c.run {
		if a.elements[0].MatchString(name) {
			return true
		}
	}
	return false
}

// alternatives splits a pattern at each |, and each part at each /.
func alternatives(pattern string) ([]alternative, error) {
	var all []alternative
	for _, part := range split(pattern, '|') {
		a := alternative{pattern: part}
		for _, element := range split(part, '/') {
			compiled, err := regexp.Compile(element)
			if err != nil {
				return nil, err
			}
			a.elements = append(a.elements, compiled)
		}
		all = append(all, a)
	}
	return all, nil
}

// split splits a pattern at each separator outside of brackets.
func split(pattern string, separator byte) []string {
	var parts []string
	brackets, parentheses, start := 0, 0, 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[':
			brackets++
		case c == ']':
			brackets = max(0, brackets-1) // an unmatched ] is an ordinary character
		case brackets > 0:
		case c == '(':
			parentheses++
		case c == ')':
			parentheses--
		case c == separator && parentheses == 0:
			parts = append(parts, pattern[start:i])
			start = i + 1
		}
	}
	return append(parts, pattern[start:])
}
