package program

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/pkg/client"
)

// advice names the flag and the environment variable of a command that can fix an error, or returns "". Only flags that the command has
// are named.
func advice(p Process, cmd *cobra.Command, err error) string {
	flags := cmd.Flags()
	if flags.Lookup("server") == nil {
		return "" // the command talks to no server
	}
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		switch {
		case needsToken(problem):
			return tokenAdvice(p, flags.Changed("token-file"))
		case problem.Status == http.StatusForbidden && problem.Field == "Host":
			return addressAdvice(p, cmd)
		case problem.Status == http.StatusNotFound:
			return roleAdvice(cmd, problem.Detail)
		}
		return ""
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return "--ca-file or " + CAFileEnv + " names the file with the authorities to trust"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // a connection that breaks later had the right address
		return addressAdvice(p, cmd)
	}
	return ""
}

// roleKey is the annotation of a command with the role that it asks.
const roleKey = "role"

// SetRole notes that a command asks a process with this role, so that errors can name the flag for its address.
func SetRole(cmd *cobra.Command, role app.Role) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[roleKey] = string(role)
}

// addressAdvice names what gives the address that a command asked.
func addressAdvice(p Process, cmd *cobra.Command) string {
	role := app.Role(cmd.Annotations[roleKey])
	if cmd.Flags().Changed(string(role)) || p.Getenv(RoleEnv(role)) != "" && !cmd.Flags().Changed("server") {
		return fmt.Sprintf("--%s or %s gives another address", role, RoleEnv(role))
	}
	return "--server or " + ServerEnv + " gives another address"
}

// needsToken reports whether another token can make the request succeed. The server refuses pages of other sites whatever the token.
func needsToken(p *client.Problem) bool {
	return p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden && p.Field != "Origin" && p.Field != "Host"
}

// tokenAdvice says where the token was taken from, and how to give another one.
func tokenAdvice(p Process, flag bool) string {
	switch {
	case flag:
		return "the token is that in --token-file"
	case p.Getenv(TokenFileEnv) != "":
		return "the token is that in " + TokenFileEnv + ", and --token-file names another file"
	case p.Getenv(TokenEnv) != "":
		return "the token is that in " + TokenEnv + ", and --token-file names a file with another one"
	default:
		return "--token-file or " + TokenFileEnv + " names the file with the token to send"
	}
}

// roleAdvice names the flag for the address of the role that serves a path, if a process answered that it does not have this role.
func roleAdvice(cmd *cobra.Command, detail string) string {
	role := app.Role(cmd.Annotations[roleKey])
	if !strings.HasSuffix(detail, fmt.Sprintf("does not serve this path: the %s does", role)) {
		return ""
	}
	return fmt.Sprintf("--%s or %s gives its address", role, RoleEnv(role))
}
