package program

import "github.com/fanmail/fanmail/internal/app"

// These environment variables are for commands that talk to a server. Flags have precedence. No flag takes the token itself,
// because every user who lists the processes of the host would see it.
const (
	ServerEnv     = "FANMAIL_SERVER"
	PublisherEnv  = "FANMAIL_PUBLISHER"
	RehydratorEnv = "FANMAIL_REHYDRATOR"
	TokenEnv      = "FANMAIL_TOKEN"      //nolint:gosec // the name of a variable
	TokenFileEnv  = "FANMAIL_TOKEN_FILE" //nolint:gosec // the name of a variable
	CAFileEnv     = "FANMAIL_CA_FILE"
	CertFileEnv   = "FANMAIL_CERT_FILE"
	KeyFileEnv    = "FANMAIL_KEY_FILE"
)

// clientEnv are the variables that start with FANMAIL_ but are not keys of the configuration. Loading the configuration ignores
// them.
var clientEnv = []string{ServerEnv, PublisherEnv, RehydratorEnv, TokenEnv, TokenFileEnv, CAFileEnv, CertFileEnv, KeyFileEnv}

// RoleEnv returns the environment variable with the address of a process that has this role.
func RoleEnv(role app.Role) string {
	if role == app.Rehydrator {
		return RehydratorEnv
	}
	return PublisherEnv
}
