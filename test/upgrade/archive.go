package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// pack writes the files of a folder to a compressed archive.
func pack(folder, archive string) (err error) {
	return writeGzip(archive, func(w io.Writer) error {
		packed := tar.NewWriter(w)
		return errors.Join(packed.AddFS(os.DirFS(folder)), packed.Close())
	})
}

// unpack creates a folder with the files of an archive.
func unpack(archive, folder string) error {
	return readGzip(archive, func(r io.Reader) error {
		root, err := openRoot(folder)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		for packed := tar.NewReader(r); ; {
			header, err := packed.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if header.Typeflag != tar.TypeReg {
				continue
			}
			if err := unpackFile(root, filepath.FromSlash(header.Name), packed); err != nil {
				return err
			}
		}
	})
}

func openRoot(folder string) (*os.Root, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(folder)
}

func unpackFile(root *os.Root, name string, r io.Reader) (err error) {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, r)
	return err
}

// line is a document of a database, as extended JSON in its canonical form, which keeps the types.
type line struct {
	Collection string          `json:"collection"`
	Document   json.RawMessage `json:"document"`
}

// dumpDatabase writes all documents of a database, one a line.
func dumpDatabase(ctx context.Context, from place, archive string) error {
	return inDatabase(from, func(db *mongo.Database) error {
		names, err := db.ListCollectionNames(ctx, bson.D{})
		if err != nil {
			return err
		}
		slices.Sort(names)
		return writeGzip(archive, func(w io.Writer) error {
			out := json.NewEncoder(w)
			for _, name := range names {
				if err := dumpCollection(ctx, db.Collection(name), out); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func dumpCollection(ctx context.Context, c *mongo.Collection, out *json.Encoder) error {
	cursor, err := c.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return err
	}
	for cursor.Next(ctx) {
		document, err := bson.MarshalExtJSON(cursor.Current, true, false)
		if err != nil {
			return err
		}
		if err := out.Encode(line{Collection: c.Name(), Document: document}); err != nil {
			return err
		}
	}
	return cursor.Err()
}

// loadDatabase inserts the documents of an archive, collection by collection.
func loadDatabase(ctx context.Context, archive string, to place) error {
	documents := make(map[string][]any)
	err := readGzip(archive, func(r io.Reader) error {
		for lines := json.NewDecoder(r); ; {
			var l line
			if err := lines.Decode(&l); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			var document bson.D
			if err := bson.UnmarshalExtJSON(l.Document, true, &document); err != nil {
				return err
			}
			documents[l.Collection] = append(documents[l.Collection], document)
		}
	})
	if err != nil {
		return err
	}
	return inDatabase(to, func(db *mongo.Database) error {
		for name, of := range documents {
			if _, err := db.Collection(name).InsertMany(ctx, of); err != nil {
				return err
			}
		}
		return nil
	})
}

func inDatabase(at place, do func(*mongo.Database) error) error {
	connected, err := mongo.Connect(options.Client().ApplyURI(at.uri))
	if err != nil {
		return err
	}
	return errors.Join(do(connected.Database(at.database)), connected.Disconnect(context.Background()))
}

func writeGzip(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(write(packed), packed.Close(), file.Close())
}

func readGzip(path string, read func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	unpacked, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(read(unpacked), unpacked.Close(), file.Close())
}
