package main

import (
	"fmt"
	"regexp"
)

// choice selects top-level tests by -run and -skip, by the rules of the package testing (match.go):
// a pattern has alternatives, and an alternative has an element for each level of subtests.
type choice struct {
	run, skip []alternative
}

type alternative struct {
	top  *regexp.Regexp
	deep bool // it has a part for subtests
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
		if !a.deep && a.top.MatchString(name) {
			return false
		}
	}
	for _, a := range c.run {
		if a.top.MatchString(name) {
			return true
		}
	}
	return false
}

// alternatives splits a pattern at each | outside of brackets, and keeps of each part the text
// before the first such /.
func alternatives(pattern string) ([]alternative, error) {
	var parts []string
	var deep []bool
	brackets, parentheses := 0, 0
	start, slash := 0, -1
	part := func(end int) {
		if slash >= 0 {
			end = slash
		}
		parts, deep = append(parts, pattern[start:end]), append(deep, slash >= 0)
	}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '[':
			brackets++
		case ']':
			brackets = max(0, brackets-1) // an unmatched ] is an ordinary character
		case '(':
			if brackets == 0 {
				parentheses++
			}
		case ')':
			if brackets == 0 {
				parentheses--
			}
		case '\\':
			i++
		case '/':
			if brackets == 0 && parentheses == 0 && slash < 0 {
				slash = i
			}
		case '|':
			if brackets == 0 && parentheses == 0 {
				part(i)
				start, slash = i+1, -1
			}
		}
	}
	part(len(pattern))

	all := make([]alternative, len(parts))
	for i, p := range parts {
		top, err := regexp.Compile(p)
		if err != nil {
			return nil, err
		}
		all[i] = alternative{top, deep[i]}
	}
	return all, nil
}
