package services

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// installPrometheus is a script that also works by hand.
//
//go:embed prometheus/install
var installPrometheus string

// Promtool returns the path of promtool: the one on the PATH, or else one that it unpacks from Debian's package.
func Promtool(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("promtool"); err == nil {
		return path, nil
	}
	var folder, complaint bytes.Buffer
	install := exec.CommandContext(ctx, "bash", "-s")
	install.Stdin, install.Stdout, install.Stderr = strings.NewReader(installPrometheus), &folder, &complaint
	if err := install.Run(); err != nil {
		return "", fmt.Errorf("unpacking promtool: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return filepath.Join(strings.TrimSpace(folder.String()), "promtool"), nil
}
