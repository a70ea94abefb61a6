package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// stdinPath stands for standard input, which errors call stdinName.
const (
	stdinPath = "-"
	stdinName = "standard input"
)

// maxLineBytes is the maximum length of a line of an input file. A message with the default limits is shorter, even if every byte
// of it is escaped.
const maxLineBytes = 16 << 20

// source is an input file that can be read more than once, because a command checks the whole file before it sends anything.
type source struct {
	// name is the name of the file in errors.
	name string
	file *os.File
	// spool is the path of a temporary copy, which close removes, or empty.
	spool string

	// header is the text of a first line that names the columns and is no record; empty if there is none in such files.
	header string
	// headerLine is the number of that line, or 0 if the file does not have it. each sets it.
	headerLine int
}

// cutOffError means that a compressed file ends early or is damaged.
type cutOffError struct {
	name string
	// lines is the number of whole lines before the end.
	lines int
	err   error
}

func (e *cutOffError) Error() string {
	return fmt.Sprintf("read %s: the compressed file is cut off or damaged after %s: %v", e.name, plural(e.lines, "whole line", "whole lines"), e.err)
}

func (e *cutOffError) Unwrap() error { return e.err }

// advice says how to go on with a file of which so many records were read.
func (e *cutOffError) advice(records int) string {
	if records == 0 || e.name == stdinName {
		return "; get the whole file"
	}
	return fmt.Sprintf("; get the whole file, or give the %s before the end to this command: 'gzip -dc -- %q | head -n %d' prints them, "+
		"and - reads them from standard input", plural(records, "good line", "good lines"), e.name, e.lines)
}

// withSource calls do with a file, and closes it.
func withSource(ctx context.Context, p program.Process, path string, do func(*source) error) error {
	file, err := openSource(ctx, p, path)
	if err != nil {
		return err
	}
	err = do(file)
	return cmp.Or(err, file.close())
}

// openSource opens a file. It first copies standard input, a pipe or a device to a temporary file, because they can be read only
// once.
func openSource(ctx context.Context, p program.Process, path string) (*source, error) {
	if path == stdinPath {
		return spool(ctx, stdinName, p.Stdin)
	}
	file, err := os.Open(path) //nolint:gosec // the user of the command names the file
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, errors.Join(err, file.Close())
	case info.IsDir():
		return nil, errors.Join(fmt.Errorf("%s is a directory: name a file, or - for standard input", path), file.Close())
	case info.Mode().IsRegular():
		return &source{name: path, file: file}, nil
	}
	s, err := spool(ctx, path, file)
	_ = file.Close() // an error would not matter after reading
	return s, err
}

func spool(ctx context.Context, name string, r io.Reader) (*source, error) {
	file, err := os.CreateTemp("", "fanmail-")
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", name, err)
	}
	s := &source{name: name, file: file, spool: file.Name()}
	// A read of a terminal or pipe cannot be interrupted. After ctx ends, the goroutine stays until the process exits, which
	// happens soon.
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(file, r)
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy %s: %w", name, err), s.close())
	}
	return s, nil
}

// close closes the file, and removes it if it is a temporary copy.
func (s *source) close() error {
	err := s.file.Close()
	if s.spool != "" {
		err = errors.Join(err, os.Remove(s.spool))
	}
	return err
}

// line is a line of an input file.
type line struct {
	// number counts from 1.
	number int
	// text is the line without its end. It is valid until the next line is read.
	text []byte
	// long means that the line is longer than maxLineBytes. Then text is its beginning.
	long bool
}

// each reads the file from its beginning, and calls do with every line that is neither blank nor a comment (a line that begins with
// '#'). If the first of these is the header, each skips it. It decompresses a gzip file, which it recognizes by its first two bytes. If that
// is cut off or damaged, the error is a *cutOffError.
func (s *source) each(ctx context.Context, do func(line) error) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	r, zipped, err := uncompressed(s.file)
	if err != nil {
		return s.failed(err, zipped, 0)
	}
	var buffer []byte
	first := true
	for number := 1; ; number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, long, err := readLine(r, buffer[:0])
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return s.failed(err, zipped, number-1)
		}
		buffer = text
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors write a byte order mark first
		}
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] != '#' {
			if first && s.header != "" && string(text) == s.header {
				s.headerLine = number
			} else if err := do(line{number: number, text: text, long: long}); err != nil {
				return err
			}
			first = false
		}
		if end {
			return nil
		}
	}
}

// failed returns the error for a file that cannot be read further than so many lines.
func (s *source) failed(err error, zipped bool, lines int) error {
	if zipped && damaged(err) {
		return &cutOffError{name: s.name, lines: lines, err: err}
	}
	return fmt.Errorf("read %s: line %d: %w", s.name, lines+1, err)
}

// damaged reports whether an error of decompression is one of the file, and not of the disk.
func damaged(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader)
}

// uncompressed returns a reader of the text of a file, and whether the file is compressed.
func uncompressed(file io.Reader) (_ *bufio.Reader, zipped bool, err error) {
	r := bufio.NewReaderSize(file, 1<<16)
	magic, err := r.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return r, false, nil
	}
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, true, err
	}
	return bufio.NewReaderSize(unzipped, 1<<16), true, nil
}

// readLine appends a line to text, without LF or CR LF at its end. If the line is too long, it reads the whole line, and appends
// only the beginning. At the end of the file it appends the rest, and returns io.EOF.
func readLine(r *bufio.Reader, text []byte) (_ []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if room := maxLineBytes - len(text); len(part) > room {
			part, long = part[:room], true
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return text, long, err
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")), long, nil
	}
}
