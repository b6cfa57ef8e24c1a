// The journey of the project's own client for TypeScript.

import { AdministrationClient, IntegrationClient, Problem, type types } from "loyalty-client";

declare const process: { env: Record<string, string | undefined> };

function setting(name: string): string {
  const value = process.env[`JOURNEY_${name}`];
  if (value === undefined) throw new Error(`JOURNEY_${name} is missing`);
  return value;
}

const url = setting("URL");
const office = new AdministrationClient(url, Number(setting("ORGANIZATION_ID")), { token: setting("ADMIN_TOKEN") });
const shop = new IntegrationClient(url, { clientId: setting("CLIENT_ID"), clientSecret: setting("CLIENT_SECRET") });

async function points(): Promise<string> {
  const { loyaltyMember } = await shop.getMember("ana", { includeBalance: true });
  return String(loyaltyMember.ledgerBalances?.[0]?.balance ?? 0);
}

function order(eventType: string, total: number): types.TrackedEvent {
  return { loyaltyMemberId: "ana", eventType, payload: { order: { externalId: "order-1", total }, till: 7 } };
}

async function refusal(call: Promise<unknown>): Promise<Problem> {
  try {
    await call;
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error("a refusal was expected");
}

async function collect<Item, Value>(items: AsyncIterable<Item>, read: (item: Item) => Value): Promise<Value[]> {
  const values: Value[] = [];
  for await (const item of items) values.push(read(item));
  return values;
}

const { campaign } = await office.createCampaign({
  code: "spend",
  name: "Spend",
  eventType: "member-purchase-order-created",
});
await office.createAction(campaign.campaignId, {
  rules: { expression: "order.total >= 1" },
  effects: {
    items: [{ effectId: "mint-points", params: [{ id: "amount", expression: "floor(order.total)" }] }],
  },
  status: "running",
  priority: 1,
});
for (const loyaltyMemberId of ["ana", "ben", "cleo", "dora", "eve"]) await shop.createMember({ loyaltyMemberId });
const total = Number(setting("DECIMAL"));
const { ledgerAccount: gems } = await office.createLedgerAccount(Number(setting("LEDGER_ID")), {
  name: "Gems",
  alias: "gems",
  active: true,
  isRevolving: true,
  chainSyncEnabled: false,
  decimals: 6,
});
const { ledgerTransactions: [minted] } = await office.mintMemberPoints("ben", {
  amount: total,
  ledgerAccountId: gems.ledgerAccountId,
});
await shop.trackEvents({ events: [order("member-purchase-order-created", total)] });
const earned = await points();
const { couponBook } = await shop.createCouponBook({ publishingStatus: "published", type: "list", name: "Free flat white" });
const bookKey = couponBook.couponBookKey;
await shop.addCouponBookCoupons(bookKey, { codes: ["FLAT-1"] });
const { couponUsage: assigned } = await shop.assignCoupon("ana", bookKey, { amount: 1 });
const { couponUsage: used } = await shop.useCoupon("ana", bookKey, { code: "FLAT-1" });
await shop.trackEvents({ events: [order("member-purchase-order-confirmed", total)] });
await shop.trackEvents({ events: [order("member-purchase-order-returned", total)] });
const second = await refusal(shop.useCoupon("ana", bookKey, { code: "FLAT-1" }));
const invalid = await refusal(shop.createMember({ loyaltyMemberId: " ana" }));

console.log(
  JSON.stringify({
    decimal: String(minted?.amount),
    earned,
    returned: await points(),
    coupons: [assigned.code, used.code],
    refusal: { status: second.status, type: second.type, hasRequestId: Boolean(second.requestId) },
    pointers: invalid.errors.map((fault) => fault.pointer),
    members: await collect(shop.iterateMembers({ limit: 2, order: "createdAt,asc" }), (member) => member.loyaltyMemberId),
    campaigns: await collect(office.iterateCampaigns({ limit: 1 }), (each) => each.code),
  }),
);
