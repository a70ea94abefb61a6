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

// installPrometheus is a script that can be used by hand as well.
//
//go:embed prometheus/install
var installPrometheus string

// Promtool returns the path of promtool: that on the PATH, or one that is unpacked from Debian's package if need be.
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
