package bucket

// ReadPageBy is ReadPage with the function that orders entries.
var ReadPageBy = readPage
