package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

var (
	// ErrFormat means that another version of Fanmail wrote data, in a format that this one cannot read.
	ErrFormat = errors.New("made by another version of Fanmail")
	// ErrCorrupt means that data is damaged.
	ErrCorrupt = fmt.Errorf("damaged record: %w", message.ErrCorrupt)
)

// version is the format, the first byte of every value.
const version = 1

var (
	encoding = must(cbor.CoreDetEncOptions().EncMode())
	// Bodies may have any bytes, so decoding must accept text that is not UTF-8.
	decoding = must(cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}

// encode appends v as CBOR. It panics if v cannot be encoded, which does not happen for the records of this package.
func encode(b []byte, v any) []byte { return append(b, must(encoding.Marshal(v))...) }

// encodeValue returns a value: the version and v as CBOR.
func encodeValue(v any) []byte { return encode([]byte{version}, v) }

// decodeValue decodes a value of encodeValue.
func decodeValue(s space, value []byte, into any) error {
	rest, err := payload(s, value, 0)
	if err != nil {
		return err
	}
	return decode(s, rest, into)
}

func decode(s space, b []byte, into any) error {
	if err := decoding.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w in %s: %w", ErrCorrupt, s.name(), err)
	}
	return nil
}

// payload checks the version of a value, and that at least atLeast bytes follow. It returns the bytes after the version.
func payload(s space, value []byte, atLeast int) ([]byte, error) {
	switch {
	case len(value) == 0:
		return nil, corrupt(s)
	case value[0] != version:
		return nil, otherVersion(s, fmt.Sprintf("has format %d, this version reads format %d", value[0], version))
	case len(value) < 1+atLeast:
		return nil, corrupt(s)
	}
	return value[1:], nil
}

// otherVersion returns an ErrFormat that says how a record differs, and what to do.
func otherVersion(s space, differs string) error {
	return fmt.Errorf("%w: a record in %s %s: run the version that wrote it, or choose another folder", ErrFormat, s.name(), differs)
}

func corrupt(s space) error { return fmt.Errorf("%w in %s", ErrCorrupt, s.name()) }

// appendTime appends a time in milliseconds. The zero time is decoded as the zero time.
func appendTime(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t.UnixMilli()))
}

func timeOf(b []byte) time.Time {
	return fromMillis(int64(binary.BigEndian.Uint64(b))) //nolint:gosec // the conversion keeps the bits
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// encodeID returns a value: the version and a message id.
func encodeID(id message.ID) []byte { return append([]byte{version}, id[:]...) }

func parseID(s space, value []byte) (message.ID, error) {
	b, err := payload(s, value, idLen)
	if err != nil {
		return message.ID{}, err
	}
	return message.ID(b), nil
}
