// Package storemetrics wraps any store and measures it: the duration and the failures of each operation, and the outcomes of the steps
// of the append protocol. Each call that returns also counts in the pulse of its context. The cost of measuring is negligible, because
// one call of fan-out handles hundreds or thousands of owners.
package storemetrics
