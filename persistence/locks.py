"""The global lock order, which rules out deadlocks between units of work.

Before all others: the test clock of a test organization, by an advisory lock, also while there is no clock: shared by
calls that write, exclusively by calls that begin, move or remove the clock. Then the organization, by calls that change
its configuration. Then an advisory lock of calls that change the record of their path, which serializes them so that
the audit log has the record before the change. Then one of calls that create or change a coupon book, which count the
books of the organization.

0. Customers who are to become members, by their identifiers: advisory locks, acquired by one statement in the order of
   their numbers, by calls that create a member if none exists. After them the id of a payment, by inserting it.
   Then rows of members, by member id: only by calls that queue events, so that each member's line grows in order. If
   such a call queues an event again that came too early, it locks the wallets before them.
1. wallets, by wallet id. The row of a member's wallet is the lock of all records of the member: balances, limits,
   events, orders, and uses of the member's referral codes; a call that may use a code locks its owner as well.
2. ledgers, by calls that add accounts to a ledger or choose its default account.
3. ledger accounts, by account id: shared by calls that post, exclusively by calls that mint under a maximum supply and,
   with FOR UPDATE, by calls that change what an account allows. Before all wallets, the progress of the notices of an
   account, and of an extension of all its lots, by the worker that continues them.
4. limit counters of all members, by campaign id: first their own rows, then the parts of split counters; a unit of work
   locks one row of each counter, or all rows of all counters if it reduces a counter, or if it is retried because a
   part of a counter had too little left. The points that are due, and so the accounts, decide which counters it needs.
5. codes of coupon books whose codes are for one member each: free codes, skipping codes that another call is assigning,
   and requested codes. Then coupon books, by id: shared by calls that assign and use (FOR UPDATE by calls that change
   what a book allows), exclusively from the first assignment on if a number limits the stock, else when all is written.
   Then the coupon that all members of a book share.
6. an audience, exclusively, by calls that change its list; events read lists without a lock. Before it, the members who
   are added, shared (FOR KEY SHARE), so that erasing them waits.
7. a collection of content: shared by calls that write its documents, exclusively by calls that change it. Then
   versions of documents in the order of the request; batches that lock them in different orders are retried.

Creating referral codes is serialized by an advisory lock of the organization, creating exports and uploading parts of
imports by others; nothing is locked after them, except exports by calls that erase a member.

Workers claim the heads of lines, jobs and unfinished erasings, and lock test clocks, without waiting: they skip locked
ones (SKIP LOCKED).

Deliveries are claimed and concluded by transactions that have locked nothing before; a trigger is locked after its
organization, whose configuration changes with the trigger.

Rows that a unit inserts are claimed by their unique keys; the loser of such a race is retried (`transactions.run`).
"""
