"""The global lock order, which rules out deadlocks between units of work.

Before all: the test clock of a test organization, by an advisory lock, also while there is none: shared by calls that
write, exclusively by calls that begin, move or remove it. Then an advisory lock of calls that change a record of the
configuration, which serializes them so that the audit log has the record before the change.

0. Customers who are to become members, by their identifiers: advisory locks, taken together in the order of their
   numbers, by calls that create a member if none exists. After them the id of a payment, by inserting it.
   Then members' own rows, by member id: only by calls that queue events, so that each member's line grows in order.
1. wallets, by wallet id. A member's wallet row is the lock of all that a member has: balances, limits, events, orders,
   and what counts for the member's referral codes; a call that may use a code locks its owner with the others.
2. limit counters of all members, by campaign id: first their own rows, then the parts of split counters; a unit locks
   one row of each, or all rows of all if it gives back, or if it found too little in a part and is retried.
3. ledgers, by calls that add accounts to one or choose its default.
4. ledger accounts, by account id: shared by calls that post, exclusively by calls that mint under a maximum supply and,
   with FOR UPDATE, by calls that change what an account allows. Before all wallets, the progress of the notices of an
   account, and of an extension of all its lots, by the worker that continues them.
5. codes of coupon books that are one member's: free ones, skipping the ones that others are taking, and named ones.
   Then coupon books, by id: shared by calls that assign and use (FOR UPDATE by calls that change what a book allows),
   exclusively from the first assignment on where a figure caps the stock, else when all is written. Then the coupon
   that all members of a book share.
6. an audience, exclusively, by calls that change its list; events read lists without a lock.
7. a collection of content: shared by calls that write its documents, exclusively by calls that change it. Then
   versions of documents in the order of the request; batches that meet in another order are retried.

Creating referral codes is serialized by an advisory lock of the organization; nothing is locked after it.

Workers claim the heads of lines and jobs, and hold a test clock, skipping what is locked (SKIP LOCKED), so that they
wait for none of these.

Deliveries are claimed and concluded by transactions that lock nothing else before them; a trigger is locked after its
organization, whose configuration changes with it.

Rows that a unit inserts are claimed by their unique keys; the loser of such a race is retried (`transactions.run`).
"""
