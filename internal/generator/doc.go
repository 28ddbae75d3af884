// Package generator plans the units, writes them, and logs what is wrong: all of
// partition-generator but its arguments. It is apart from the program so that tests can run it in
// their own process.
package generator
