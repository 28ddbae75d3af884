// Package errortext takes the words of Go and of gRPC out of errors that a person reads.
package errortext

import (
	"regexp"
	"sync"
)

// rewrite replaces what a pattern matches.
type rewrite struct {
	pattern *regexp.Regexp
	text    string
}

// rewrites are applied in their order. They are compiled for the first error.
var rewrites = sync.OnceValue(func() []rewrite {
	return []rewrite{
		{regexp.MustCompile(`rpc error: code = \w+ desc = `), ""},
		{regexp.MustCompile(`connection error: desc = "(?:transport: )?(?:[Ee]rror while dialing:? )?([^"]*)"`), "$1"},
		{regexp.MustCompile(`transport: [Ee]rror while dialing:? `), ""},
		{regexp.MustCompile(`\b(?:Get|Head|Post|Put|Patch|Delete) "[^"]*": `), ""},
		{regexp.MustCompile(`\bdial (?:unix|tcp[46]?) (\S+): (?:connect: )?`), "$1: "},
		{regexp.MustCompile(`\b(?:read|write) (?:unix|tcp[46]?) \S+->(\S+): `), "$1: "},
		{regexp.MustCompile(`(^|: |; |\()(?:open|openat2?|stat|lstat|read|readdirent|fdopendir|readlink|mkdir|unlink) (/[^\s:]*): `), "$1$2: "},
		{regexp.MustCompile(`\bcontext deadline exceeded\b`), "no answer in time"},
		{regexp.MustCompile(`\bcontext canceled\b`), "interrupted"},
		{regexp.MustCompile(`\bunexpected end of JSON input\b`), "the JSON ends in the middle"},
	}
})

// Plain returns an error's text without the names of functions and of layers, which tell a person
// nothing. What is said about paths, addresses and reasons stays.
func Plain(text string) string {
	for _, r := range rewrites() {
		text = r.pattern.ReplaceAllString(text, r.text)
	}
	return text
}
