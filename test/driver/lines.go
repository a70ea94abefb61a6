package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// eachLine calls do with the number and the text of every line of a file that is not blank. It decompresses the file if necessary.
func eachLine(path string, do func(number int, line []byte) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffered := bufio.NewReader(file)
	var r io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := do(number, bytes.TrimRight(lines.Bytes(), "\r")); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// eachEdge calls do with every follower and followee in a file.
func eachEdge(path string, do func(follower, followee string)) error {
	return eachLine(path, func(_ int, line []byte) error {
		follower, followee, ok := strings.Cut(string(line), "\t")
		if !ok {
			return errors.New("there is no tab between a follower and a followee")
		}
		do(follower, followee)
		return nil
	})
}
