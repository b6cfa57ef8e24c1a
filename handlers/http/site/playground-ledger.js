// The ledger entries of an event, read from the response to its dry run, and the balances around each entry.

const MEMBER = "member";
const SIGNS = { "mint-points": 1, "burn-points": -1 };
const SIGNS_OF_REVERSALS = { mint: -1, burn: 1 };

/** The sum without the noise of binary fractions. */
const sum = (one, other) => Number((one + other).toPrecision(15));

const paramsOf = (effect) => Object.fromEntries(effect.params.map(({ id, value }) => [id, value]));

/** The entry of an effect on points. Without an account of its own it is posted to the main account of its campaign. */
const ofEffect = (effect, mainAccounts) => {
  const sign = SIGNS[effect.effectId];
  if (!sign) return [];
  const { amount, ledgerAccountKey, recipient, expirationDate } = paramsOf(effect);
  const account = ledgerAccountKey ? { accountKey: ledgerAccountKey } : { accountId: mainAccounts[effect.campaignId] };
  return [{ ...account, recipient, amount: sign * amount, availableAt: effect.availableAt, expiresAt: expirationDate }];
};

/** The ids of the campaigns whose main account an effect is posted to. */
export const campaignsWithoutAccount = (effects) => [...new Set(effects
  .filter((effect) => SIGNS[effect.effectId] && !paramsOf(effect).ledgerAccountKey)
  .map(({ campaignId }) => campaignId))];

const ofMissionReward = ({ kind, amount, ledgerAccountKey, availableAt }) => (kind === "points"
  ? [{ accountKey: ledgerAccountKey, recipient: MEMBER, amount, availableAt }] : []);

const ofReferralReward = ({ recipient, memberId, points, ledgerAccountId, availableAt }) => (points
  ? [{ accountId: ledgerAccountId, recipient: recipient === "referred" ? MEMBER : `member ${memberId}`,
    amount: points, availableAt }] : []);

/** What reverting a transaction posts. Releasing a pending one changes no balance. */
const ofReversal = ({ transactionType, ledgerAccountKey, walletId, revertedAmount, outcome }, wallets) => {
  const sign = SIGNS_OF_REVERSALS[transactionType];
  if (!sign || outcome === "released") return [];
  const isOwn = wallets.some((wallet) => wallet.walletId === walletId);
  return [{ accountKey: ledgerAccountKey, recipient: isOwn ? MEMBER : "another member", amount: sign * revertedAmount }];
};

/** Points of a payment that a return gives back; the response does not name their account. */
const ofRefund = ({ points }) => (points ? [{ recipient: MEMBER, amount: points }] : []);

/** The entries of a result, in the order in which they are posted. `earn` also has those of events that the event causes. */
const listEntries = ({ result, earn, wallets, mainAccounts }) => {
  const { missions, effects } = earn ?? result;
  return [
    ...(result.refunds ?? []).flatMap(ofRefund),
    ...(result.reverted ?? []).flatMap((event) =>
      event.ledgerTransactions.flatMap((transaction) => ofReversal(transaction, wallets))),
    ...missions.flatMap(({ rewards }) => rewards.flatMap(ofMissionReward)),
    ...effects.flatMap((effect) => ofEffect(effect, mainAccounts)),
    ...result.referrals.flatMap(({ rewards }) => rewards.flatMap(ofReferralReward)),
  ].filter(({ amount }) => amount);
};

const findAccount = ({ accountKey, accountId }, accounts) => accounts.find((account) =>
  account.ledgerAccountKey === accountKey || account.ledgerAccountId === accountId);

const nameAccount = ({ accountKey, accountId }, account) =>
  account?.name ?? accountKey ?? (accountId ? `Account ${accountId}` : "unknown");

/**
 * When new points expire: `{at, isFirst}`, where `at` is null for never. Without a date of its own an entry has that of
 * `earn`, which is the first one of all new points of the account. Undefined where the response does not say it.
 */
const expiryOf = (entry, key, entries, earn) => {
  if (entry.amount < 0 || entry.recipient !== MEMBER) return undefined;
  if (entry.expiresAt) return { at: entry.expiresAt, isFirst: false };
  const total = earn?.accounts.find((other) => other.ledgerAccountKey === key);
  if (!total || entry.availableAt === null) return undefined;
  const credits = entries.filter((other) => other.key === key && other.entry.amount > 0 && other.entry.recipient === MEMBER);
  return { at: total.expiresAt, isFirst: total.expiresAt !== null && credits.length > 1 };
};

/** The balance of a wallet before the event; null with a debt, or if a reversal may take points that still wait. */
const startOf = (wallet, { reverted }) =>
  (wallet.currentOverdraftBalance || (reverted && wallet.pending) ? null : wallet.currentBalance);

/** The balance after an entry; null if it is unknown or would be a debt. Points that wait do not change it. */
const balanceAfter = (before, { amount, availableAt }) => {
  if (before === null || availableAt !== undefined) return before;
  const after = sum(before, amount);
  return after < 0 ? null : after;
};

/**
 * The rows of the table of ledger entries. `mainAccounts` has the id of the main account of each campaign, by id.
 *
 * `before` and `after` are null where the responses do not show the balance, such as that of another member.
 */
export const entriesOf = ({ result, earn, wallets, mainAccounts, accounts, memberId }) => {
  const found = listEntries({ result, earn, wallets, mainAccounts }).map((entry) => {
    const account = findAccount(entry, accounts);
    return { entry, account, key: account?.ledgerAccountKey };
  });
  // An entry without an account may be one of any account.
  const isComplete = found.every(({ entry, account }) => account || entry.recipient !== MEMBER);
  const balances = new Map(accounts.map(({ ledgerAccountKey }) => [ledgerAccountKey, 0]));
  for (const wallet of wallets) balances.set(wallet.ledgerAccountKey, startOf(wallet, result));
  return found.map(({ entry, account, key }) => {
    const isOwn = entry.recipient === MEMBER;
    const before = isOwn && isComplete ? balances.get(key) : null;
    const after = balanceAfter(before, entry);
    if (isOwn) balances.set(key, after);
    return {
      account: nameAccount(entry, account), member: isOwn ? memberId : entry.recipient, amount: entry.amount,
      before, after, availableAt: entry.availableAt, expires: expiryOf(entry, key, found, earn),
    };
  });
};
