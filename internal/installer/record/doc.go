// Package record holds what the installer knows of a node, what it is asked for, and what came of
// it: an exit status, a reason of one word, and sentences for people.
//
// It is plain data, and reads and writes nothing: the controller of rollout reads it too.
package record
