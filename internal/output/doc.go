// Package output has the forms in which the commands show values: JSON for scripts, and for people
// times, and text that is wrapped and coloured at a terminal and left as it is in files and pipes.
//
// It knows writers and terminals, and nothing of what is written.
package output
