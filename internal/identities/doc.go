// Package identities gives users identities, such as email addresses, and finds users by them.
//
// A claim is three writes: it inserts the record of the identity, which is not in force, adds an item to the user's list, and puts the record
// in force. docs/adr/0070-claiming-an-identity.md says why in this order, and test/proof searches it. A process that stalls or dies between
// two writes leaves a record that is not in force, or an item whose record is gone. Neither means anything to a reader. The next claim of
// the identity finishes the former, for any user, and the next claim that finds the list full removes the latter.
package identities
