package wake

const MaxPending = maxPending

// SetRoom sets how many hashes of other processes are remembered.
func (h *Hub) SetRoom(hashes int) { h.room = hashes }
