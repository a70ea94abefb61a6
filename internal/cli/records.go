package cli

import (
	"context"
	"fmt"
)

// parser reads a record from a line of an input file. Its error says what is wrong with the line.
type parser[T any] func(text []byte) (T, error)

// problem is a line of an input file that was left out, and the reason.
type problem struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// in returns the problem as an error that names the file and the line.
func (b problem) in(file string) error { return fmt.Errorf("%s:%d: %s", file, b.Line, b.Error) }

// survey is the result of checking an input file.
type survey struct {
	// good counts the records.
	good int
	// bad are the lines without a valid record. It is empty unless bad lines are skipped.
	bad []problem
}

// examine checks a whole file before any of it is sent. The first bad line is an error, unless skipBad is set.
func examine[T any](ctx context.Context, s *source, parse parser[T], skipBad bool) (survey, error) {
	var found survey
	err := s.each(ctx, func(l line) error {
		_, err := parseLine(l, parse)
		switch {
		case err == nil:
			found.good++
			return nil
		case skipBad:
			found.bad = append(found.bad, problem{Line: l.number, Error: err.Error()})
			return nil
		}
		return fmt.Errorf("%w: nothing was sent; correct the line, or give --skip-bad to skip such lines",
			problem{Line: l.number, Error: err.Error()}.in(s.name))
	})
	return found, err
}

// chunk is a sequence of consecutive records of a file.
type chunk[T any] struct {
	// index counts the chunks of a file from 0.
	index int
	// lines holds the line of each value.
	lines  []int
	values []T
}

// eachChunk calls do with chunks of at most size records. It skips bad lines, which examine has already reported.
func eachChunk[T any](ctx context.Context, s *source, parse parser[T], size int, do func(chunk[T]) error) error {
	var next chunk[T]
	err := s.each(ctx, func(l line) error {
		value, err := parseLine(l, parse)
		if err != nil {
			return nil //nolint:nilerr // examine has reported the line
		}
		next.lines, next.values = append(next.lines, l.number), append(next.values, value)
		if len(next.values) < size {
			return nil
		}
		full := next
		next = chunk[T]{index: full.index + 1}
		return do(full)
	})
	if err != nil || len(next.values) == 0 {
		return err
	}
	return do(next)
}

func parseLine[T any](l line, parse parser[T]) (T, error) {
	if l.long {
		var none T
		return none, fmt.Errorf("is longer than %s bytes", count(maxLineBytes))
	}
	return parse(l.text)
}
