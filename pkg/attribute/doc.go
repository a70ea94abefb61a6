// Package attribute holds the declared attributes: the top-level keys of a message's attrs that inboxes can be filtered by.
//
// A Declaration gives an attribute a type and a number. Numbers rise, and none is given again, not even to a name that is declared again. So a
// number says exactly which values were checked and indexed under it. A Set holds the declarations of one moment. It parses the attrs of a
// message, and a Condition says which values an entry must have.
package attribute
