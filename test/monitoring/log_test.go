package monitoring_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logged returns the messages of the warnings and errors in the code, with their level. Lines that Pebble and the NATS server write
// through Fanmail's log are not among them.
func logged(t *testing.T) map[string]string {
	t.Helper()
	messages := make(map[string]string)
	for folder, files := range sources(t) {
		constants := constants(files)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				level, argument := logCall(n)
				if level == "" {
					return true
				}
				message, ok := text(argument, constants)
				require.True(t, ok, "%s: the message of a %s is no constant: nobody could look it up", folder, level)
				messages[message] = level
				return true
			})
		}
	}
	require.NotEmpty(t, messages)
	return messages
}

// sources returns the files of the code by their folders.
func sources(t *testing.T) map[string][]*ast.File {
	t.Helper()
	files := make(map[string][]*ast.File)
	for _, root := range []string{"cmd", "config", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
			return err
		})
		require.NoError(t, err)
	}
	return files
}

// constants returns the constant texts of a package.
func constants(files []*ast.File) map[string]string {
	constants := make(map[string]string)
	for _, file := range files {
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				value, _ := spec.(*ast.ValueSpec)
				for i := range value.Values {
					if written, ok := text(value.Values[i], nil); ok {
						constants[value.Names[i].Name] = written
					}
				}
			}
		}
	}
	return constants
}

// text returns the text of a literal or a constant.
func text(e ast.Expr, constants map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		written, err := strconv.Unquote(e.Value)
		return written, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		written, ok := constants[e.Name]
		return written, ok
	case *ast.BinaryExpr:
		left, known := text(e.X, constants)
		right, ok := text(e.Y, constants)
		return left + right, known && ok && e.Op == token.ADD
	default:
		return "", false
	}
}

// logCall returns the level and the argument of a call such as log.Warn().Err(err).Msg("…"), or nothing. A function may stand
// between the two that adds fields to the event.
func logCall(n ast.Node) (level string, argument ast.Expr) {
	call, ok := n.(*ast.CallExpr)
	if !ok || method(call) != "Msg" || len(call.Args) != 1 {
		return "", nil
	}
	ast.Inspect(call.Fun, func(n ast.Node) bool {
		if inner, ok := n.(*ast.CallExpr); ok {
			if name := method(inner); name == "Warn" || name == "Error" && len(inner.Args) == 0 {
				level = strings.ToLower(name)
			}
		}
		return level == ""
	})
	return level, call.Args[0]
}

// method returns the name of the method that is called, or "".
func method(call *ast.CallExpr) string {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	return ""
}

// The runbook explains every warning and error that the code can log, and none that it cannot.
func TestEveryComplaintIsInTheRunbook(t *testing.T) {
	t.Parallel()
	explained := make(map[string]string)
	for line := range strings.Lines(read(t, operationsPage)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			continue
		}
		message, level := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])
		if level == "warn" || level == "error" {
			require.NotEmpty(t, strings.TrimSpace(cells[2]), message)
			require.NotEmpty(t, strings.TrimSpace(cells[3]), message)
			explained[strings.Trim(message, "`")] = level
		}
	}
	require.Equal(t, logged(t), explained)
}
