package natsserver

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rs/zerolog"
)

// serverLog writes the server's log lines. It keeps the first fatal line, because the server reports the reason for a failed
// start only to its log.
type serverLog struct {
	logger zerolog.Logger

	mu    sync.Mutex
	fatal error
}

func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// Fatalf implements the server's Logger.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		l.fatal = fmt.Errorf(format, v...)
	}
}

// writeError is in each line by which the server says that it refuses all further writes to a stream, for example after its disk was full.
const writeError = "ritical write error"

// Errorf implements the server's Logger. Only a restart lets the server write to such a stream again, so it ends the process, by a panic of
// a goroutine of its own, from which no caller recovers.
func (l *serverLog) Errorf(format string, v ...any) {
	l.logger.Error().Msgf(format, v...)
	if strings.Contains(format, writeError) {
		go panic("natsserver: a stream cannot be written: " + fmt.Sprintf(format, v...))
	}
}

// Warnf implements the server's Logger.
func (l *serverLog) Warnf(format string, v ...any) { l.logger.Warn().Msgf(format, v...) }

// Noticef implements the server's Logger. The server writes notices at each start and for each recovered stream.
func (l *serverLog) Noticef(format string, v ...any) { l.logger.Debug().Msgf(format, v...) }

// Debugf implements the server's Logger.
func (l *serverLog) Debugf(format string, v ...any) { l.logger.Debug().Msgf(format, v...) }

// Tracef implements the server's Logger.
func (l *serverLog) Tracef(format string, v ...any) { l.logger.Trace().Msgf(format, v...) }
