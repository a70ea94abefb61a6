package services

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// scripts install and run DocumentDB. They also work by hand.
//
//go:embed documentdb/install documentdb/run
var scripts embed.FS

// findDocumentDB returns DocumentDB, or ErrNotInstalled.
func findDocumentDB(ctx context.Context) (*MongoDB, error) {
	var complaint bytes.Buffer
	installation, err := runInstall(ctx, &complaint, "--check")
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w (%s)", ErrNotInstalled, strings.TrimSpace(complaint.String()))
	} else if err != nil {
		return nil, err
	}
	return documentDB(installation)
}

// installDocumentDB installs DocumentDB if it is not installed yet.
func installDocumentDB(ctx context.Context, progress io.Writer) (*MongoDB, error) {
	installation, err := runInstall(ctx, progress)
	if err != nil {
		return nil, fmt.Errorf("installing DocumentDB: %w", err)
	}
	return documentDB(installation)
}

// runInstall runs the script that installs DocumentDB, and returns the folder of the installation. The output of the script goes to
// stderr.
func runInstall(ctx context.Context, stderr io.Writer, args ...string) (string, error) {
	script, err := scripts.ReadFile("documentdb/install")
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "fanmail-install-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "install")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		return "", err
	}
	install := exec.CommandContext(ctx, "bash", append([]string{path}, args...)...)
	install.Stderr = stderr
	installation, err := install.Output()
	return strings.TrimSpace(string(installation)), err
}

// documentDB returns the DocumentDB that is installed in a folder.
func documentDB(installation string) (*MongoDB, error) {
	about, err := os.ReadFile(filepath.Join(installation, "about"))
	if err != nil {
		return nil, err
	}
	script, err := scripts.ReadFile("documentdb/run")
	if err != nil {
		return nil, err
	}
	return &MongoDB{
		name: fmt.Sprintf("DocumentDB in %s (%s)", installation, strings.TrimSpace(string(about))),
		command: func(data string, port int) *exec.Cmd {
			run := exec.Command("bash", "-c", string(script), "run", installation, data, strconv.Itoa(port)) //nolint:noctx // Kill or Stop ends it
			ownNamespaces(run)
			return run
		},
		prepare: func(context.Context, *mongo.Client, int) error { return nil },
	}, nil
}
