// Package text converts values to and from text: foreign text, such as file names and answers of
// other programs, into one line without control characters of ASCII; quantities of Kubernetes and
// lists of CPUs; numbers of bytes and of things for people.
//
// It parses in bounded time, and reads no file, clock or network: the generator links it.
package text
