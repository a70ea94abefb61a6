package pebblestore

import (
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// ScanRecord returns the record of a scan.
func ScanRecord(id message.ID, scan progress.Scan) Record {
	return Record{"scan", scanKey(id, 1), encodeScan(scan)}
}

// EndingRecord returns the record of an ending.
func EndingRecord(id message.ID, ending message.Ending) Record {
	return Record{"ending", idKey(spaceEndings, id), encodeValue(recordOfEnding(ending))}
}
