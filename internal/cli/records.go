package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fanmail/fanmail/internal/cli/program"
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
	// bad are the lines without a valid record: all if bad lines are skipped, and otherwise the first maxShownProblems.
	bad []problem
	// left counts the bad lines that are not in bad.
	left int
}

// examine checks a whole file before any of it is sent. Bad lines are an error, unless skipBad is set; it prints the first of several to w.
// It also prints there which line was skipped because it names the columns.
func examine[T any](ctx context.Context, w io.Writer, s *source, parse parser[T], skipBad bool) (survey, error) {
	var found survey
	err := s.each(ctx, func(l line) error {
		_, err := parseLine(l, parse)
		switch {
		case err == nil:
			found.good++
		case skipBad || len(found.bad) < maxShownProblems:
			found.bad = append(found.bad, problem{Line: l.number, Error: err.Error()})
		default:
			found.left++
		}
		return nil
	})
	if cut, ok := errors.AsType[*cutOffError](err); ok {
		return found, fmt.Errorf("%w: nothing was sent%s", err, cut.advice(found.good))
	}
	if err == nil && s.headerLine > 0 {
		err = printf(w, "%s:%d: skipped, because it names the columns; if it is a record, put it on a later line\n", program.Printable(s.name), s.headerLine)
	}
	if err == nil && !skipBad {
		err = found.refuse(w, s)
	}
	return found, err
}

// refuse returns an error if there are bad lines. It names a single one, and prints the first of several.
func (f survey) refuse(w io.Writer, s *source) error {
	switch n := len(f.bad) + f.left; n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: nothing was sent; correct the line, or give --skip-bad to skip such lines", f.bad[0].in(s.name))
	default:
		if err := showProblems(w, s, f.bad, f.left, ""); err != nil {
			return err
		}
		return fmt.Errorf("%s has %s: nothing was sent; correct them, or give --skip-bad to skip such lines", s.name, plural(n, "bad line", "bad lines"))
	}
}

// showProblems prints lines that were left out: the first maxShownProblems, and the number of the others, of which more are not among the
// given. hint says how to see all.
func showProblems(w io.Writer, file *source, problems []problem, more int, hint string) error {
	for i, b := range problems {
		if i == maxShownProblems {
			more += len(problems) - i
			break
		}
		if err := printf(w, "%s\n", program.Printable(b.in(file.name).Error())); err != nil {
			return err
		}
	}
	if more == 0 {
		return nil
	}
	return printf(w, "and %s more%s\n", count(more), hint)
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
