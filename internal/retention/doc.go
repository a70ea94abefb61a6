// Package retention walks over all users, and keeps what each of them may keep: the Walker calls Options.Keep with each state.
//
// The walk is a round through the partitions, in the order of users. One process walks at a time: the Round, a record that all
// processes share, has its token, its lease and the place that it has reached. The holder renews the lease with each place that it records.
// Another process takes over a lease that is dead, and continues at that place. If clocks differ, two processes walk the same stretch.
// That is harmless, because Keep may be repeated and run twice at the same time.
//
// One record does not grow, and nothing ends it: each round replaces the one before.
package retention
