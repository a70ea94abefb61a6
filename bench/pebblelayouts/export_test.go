package pebblelayouts

import "errors"

// Records returns the records of a layout that is not buckets, by their keys.
func Records(l Layout) (records map[string]string, err error) {
	keys, err := l.(*layout).db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	records = make(map[string]string)
	for there := keys.First(); there; there = keys.Next() {
		records[string(keys.Key())] = string(keys.Value())
	}
	return records, errors.Join(keys.Error(), keys.Close())
}
