// Package site tests the pages of docs as a site, which make site builds.
package site
