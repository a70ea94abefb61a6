// Package storemetrics measures the calls of a store: the duration and the failures of each operation, and the outcomes of the steps
// of the append protocol. A store calls Done and Pushed where all its calls pass. The cost of measuring is negligible.
package storemetrics
