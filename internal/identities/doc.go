// Package identities gives users identities, such as email addresses, and finds users by them.
//
// A claim is three writes. It inserts the record of the identity, not in force. It adds an item to the user's list. It puts the record in
// force. docs/adr/0070-claiming-an-identity.md says why in this order, and test/proof searches it. A process that stalls or dies between
// two writes leaves a record that is not in force, or an item whose record is gone. Neither means anything to a reader. The next claim of
// the identity, by any user, finishes such a record. The next claim that finds the list full removes such an item.
package identities
