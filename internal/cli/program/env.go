package program

// Environment variables of commands that talk to a server. Flags win over them. No flag takes the token itself, because everyone
// who lists the processes of a host would see it.
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

// clientEnv are the variables that are no keys of the configuration, and no typing errors.
var clientEnv = []string{ServerEnv, PublisherEnv, RehydratorEnv, TokenEnv, TokenFileEnv, CAFileEnv, CertFileEnv, KeyFileEnv}
