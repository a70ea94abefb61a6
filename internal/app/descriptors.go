package app

import "fmt"

const (
	// leastDescriptors is what the embedded store needs to be open beside a server.
	leastDescriptors = 256
	// natsDescriptors are for NATS, logs and the rest of the process.
	natsDescriptors = 64
	// mostFiles and mostConnections are more than a process uses.
	mostFiles, mostConnections = 1000, 1_000_000
)

// StoreFiles returns how many tables the embedded store may hold open, so that connections cannot take its descriptors. It returns an
// error if the process may have too few descriptors.
func StoreFiles() (int, error) { return storeFiles(descriptors()) }

func storeFiles(limit uint64) (int, error) {
	if limit < leastDescriptors {
		return 0, fmt.Errorf("the process may have %d open files, and the embedded store needs %d: raise the limit (ulimit -n, LimitNOFILE)", limit, leastDescriptors)
	}
	return int(min(limit/4, mostFiles)), nil
}

// connections returns how many connections the HTTP server takes: the configured number, or else what the limit of descriptors leaves.
func connections(configured int, limit uint64) (int, error) {
	free := int(min(limit-min(limit/4, mostFiles)-min(limit/4, natsDescriptors), mostConnections))
	if configured > free {
		return 0, fmt.Errorf("http.max_connections is %d, and the limit of open files leaves %d: lower it, or raise the limit (ulimit -n, LimitNOFILE)", configured, free)
	}
	if configured > 0 {
		return configured, nil
	}
	return free, nil
}
