// Package storemetrics measures stores from outside, whichever they are: how long each operation takes, how often it fails, and
// what the append protocol comes to. A call is for hundreds or thousands of owners where it matters, so that measuring each
// costs nothing.
package storemetrics
