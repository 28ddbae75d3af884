// Command empty does nothing. Its run time is the minimum of a Go program.
package main

func main() {}
