// Package security attacks a running server from outside, over real connections, as SECURITY.md says that it may be attacked.
package security
