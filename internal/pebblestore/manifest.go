package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// manifestBlock is the size of the blocks of a manifest. A chunk lies in one block.
	manifestBlock = 32 << 10
	// chunkHeader is the size of a chunk's header: a checksum of 4 bytes, a length of 2, and a kind of 1, which is 1 to 4.
	chunkHeader = 7
)

// checkManifest returns an error if a manifest has a sound chunk behind a damaged one. Pebble takes the damage for the end of the manifest: it
// would silently lose the tables that are named behind it. Damage at the very end looks like a torn write.
func checkManifest(name string, files vfs.FS) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	damaged := false
	for at := 0; at < len(content); {
		block := content[at:min(len(content), at-at%manifestBlock+manifestBlock)]
		size := chunkSize(block)
		switch {
		case len(block) < chunkHeader: // padding
			size = len(block)
		case size == 0:
			damaged, size = true, 1
		case damaged:
			return fmt.Errorf("%s: %w", name, pebble.ErrCorruption)
		}
		at += size
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSize returns the size of the chunk at the beginning of a block, or 0 if there is no sound one.
func chunkSize(block []byte) int {
	if len(block) < chunkHeader || block[6] < 1 || block[6] > 4 {
		return 0
	}
	size := chunkHeader + int(binary.LittleEndian.Uint16(block[4:]))
	if size > len(block) {
		return 0
	}
	sum := crc32.Checksum(block[6:size], castagnoli)
	if bits.RotateLeft32(sum, 17)+0xa282ead8 != binary.LittleEndian.Uint32(block) {
		return 0
	}
	return size
}
