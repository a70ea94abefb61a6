package config

import "regexp"

// URL is the address of a server, which may hold a password. String masks that, so that it gets into no log and no output:
// string(u) is the address itself.
type URL string

// password matches what stands between the user's name and the host. A password that holds '@' or '/' unescaped is masked as
// far as the last '@' before the path.
var password = regexp.MustCompile(`(://[^:/@,]*:)[^,]*@`)

// String returns the address with a mask in place of the password.
func (u URL) String() string { return password.ReplaceAllString(string(u), "$1"+mask+"@") }

// mask stands for a secret.
const mask = "*****"
