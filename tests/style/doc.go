// Package style tests that links between documents lead somewhere, that the tests they name exist,
// and that no line of prose is too long. With the build tag style it checks the files that are not
// Go with the tools that are made for them: manual pages, scripts, YAML, and the spelling of all
// texts. "make test-packages" installs the tools and runs it.
package style
