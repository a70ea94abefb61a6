package cli

import (
	"context"
	"fmt"
)

// parser reads a record from a line of an input file. Its error says what is wrong with the line.
type parser[T any] func(text []byte) (T, error)

// problem is a line of an input file that was not taken, and why.
type problem struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// in returns the problem as an error that names the file and the line.
func (b problem) in(file string) error { return fmt.Errorf("%s:%d: %s", file, b.Line, b.Error) }

// survey is what an input file holds.
type survey struct {
	// good counts the records.
	good int
	// bad are the lines that hold none. There are some only if they are to be skipped.
	bad []problem
}

// examine reads a file to its end before anything of it is used. Unless bad lines are to be skipped, the first one is an
// error.
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
		return fmt.Errorf("%w: nothing was sent; correct the line, or give --skip-bad to go on without such lines",
			problem{Line: l.number, Error: err.Error()}.in(s.name))
	})
	return found, err
}

// chunk is some records that follow one another in a file.
type chunk[T any] struct {
	// index counts the chunks of a file from 0.
	index int
	// lines holds the line of each value.
	lines  []int
	values []T
}

// eachChunk calls do with the records of a file, so many at a time. It passes over bad lines: examine has told of them.
func eachChunk[T any](ctx context.Context, s *source, parse parser[T], size int, do func(chunk[T]) error) error {
	var next chunk[T]
	err := s.each(ctx, func(l line) error {
		value, err := parseLine(l, parse)
		if err != nil {
			return nil //nolint:nilerr // it is what --skip-bad asks for
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
