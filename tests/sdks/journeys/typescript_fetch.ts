// The journey by the clients that openapi-generator makes for TypeScript's fetch; it prints what it saw as JSON.

import * as administration from "./administration/index.js";
import * as integration from "./integration/index.js";

declare const process: { env: Record<string, string | undefined> };

function setting(name: string): string {
  const value = process.env[`JOURNEY_${name}`];
  if (value === undefined) throw new Error(`JOURNEY_${name} is missing`);
  return value;
}

// The parts of the problem, by which programs decide, that a call is refused with.
async function problemOf(call: Promise<unknown>): Promise<object> {
  try {
    await call;
  } catch (refused) {
    if (!(refused instanceof integration.ResponseError)) throw refused;
    const { status, type, errors } = integration.ProblemFromJSON(await refused.response.json());
    return { status, type, pointers: (errors ?? []).map((fault) => fault.pointer) };
  }
  throw new Error("a problem was expected");
}

function day(date: Date | null): string | null {
  return date === null ? null : integration.serializeDate(date);
}

const basePath = setting("URL");
const organizationId = Number(setting("ORGANIZATION_ID"));

const anonymous = new integration.AuthApi(new integration.Configuration({ basePath }));
const token = await anonymous.createAccessToken({
  grantType: "client_credentials",
  clientId: setting("CLIENT_ID"),
  clientSecret: setting("CLIENT_SECRET"),
});
const shop = new integration.Configuration({ basePath, accessToken: token.accessToken });
const office = new administration.Configuration({ basePath, accessToken: setting("ADMIN_TOKEN") });

// An account with six decimals, and a campaign that gives whole points and parts of gems.
const { ledgerAccount: gems } = await new administration.LedgersApi(office).createLedgerAccount({
  organizationId,
  ledgerId: Number(setting("LEDGER_ID")),
  ledgerAccountCreate: {
    name: "Gems",
    alias: "gems",
    active: true,
    isRevolving: true,
    chainSyncEnabled: false,
    decimals: 6,
  },
});
const campaigns = new administration.CampaignsApi(office);
const { campaign } = await campaigns.createCampaign({
  organizationId,
  campaignBody: {
    code: "spend",
    name: "Spend",
    eventType: "member-purchase-order-created",
    validFrom: new Date("2026-01-01T00:00:00-03:00"),
  },
});
const points: administration.ActionEffect = {
  effectId: "mint-points",
  params: [{ id: "amount", expression: "floor(order.total)" }],
};
const parts: administration.ActionEffect = {
  effectId: "mint-points",
  params: [
    { id: "amount", expression: "order.total" },
    { id: "ledgerAccountKey", value: gems.ledgerAccountKey },
  ],
};
await campaigns.createAction({
  organizationId,
  campaignId: campaign.campaignId,
  campaignActionBody: {
    rules: { expression: "order.total >= 1" },
    effects: { items: [points, parts] },
    status: "running",
    priority: 1,
  },
});

// Members, an event of one of them, and what it gave.
const members = new integration.MembersApi(shop);
for (const loyaltyMemberId of ["ben", "cleo", "dora", "eve"]) {
  await members.createMember({ memberCreate: { loyaltyMemberId } });
}
await members.createMember({
  memberCreate: {
    loyaltyMemberId: "ana",
    publicLoyaltyMemberId: "A-1",
    profile: { birthdate: new Date(1992, 1, 29) },
    customAttributes: { drink: "flat white" },
  },
});
const tracked = await new integration.EventsApi(shop).trackEvents({
  trackRequest: {
    events: [
      {
        loyaltyMemberId: "ana",
        systemUniqueKey: "sale-1",
        eventType: "member-purchase-order-created",
        externalEventDate: new Date("2026-03-02T08:15:00Z"),
        payload: { order: { externalId: "order-1", total: 16777217.55 } },
      },
    ],
  },
});
const amounts = tracked.results[0]?.effects.flatMap((effect) =>
  effect.params.filter((param) => param.id === "amount").map((param) => String(param.value)),
);

// A long decimal; numbers have 15 digits.
await new administration.MembersApi(office).mintMemberPoints({
  organizationId,
  loyaltyMemberId: "ben",
  memberPointsRequest: { amount: Number(setting("DECIMAL")), ledgerAccountId: gems.ledgerAccountId },
});
const { loyaltyMember: ben } = await members.getMember({ loyaltyMemberId: "ben", includeBalance: true });
const balance = ben.ledgerBalances?.find((held) => held.ledgerAccountId === gems.ledgerAccountId)?.balance;

// Updates: one field changes, the others stay; null clears.
const ana = { loyaltyMemberId: "ana" };
const { loyaltyMember: patched } = await members.updateMember({
  ...ana,
  memberUpdate: { publicLoyaltyMemberId: "A-2" },
});
const { loyaltyMember: cleared } = await members.updateMember({
  ...ana,
  memberUpdate: { publicLoyaltyMemberId: null },
});

// A book with codes of its own: one is assigned and used.
const books = new integration.CouponBooksApi(shop);
const { couponBook } = await books.createCouponBook({
  couponBookInput: {
    publishingStatus: "published",
    type: "list",
    name: "Free flat white",
    tags: ["coffee"],
    channels: ["app"],
    customAttributes: { cup: "large" },
  },
});
const { couponBookKey } = couponBook;
await books.addCouponBookCoupons({ couponBookKey, couponCodes: { codes: ["FLAT-1"] } });
const { couponBook: renamed } = await books.updateCouponBook({
  couponBookKey,
  couponBookChange: { name: "Free espresso" },
});
const coupons = new integration.MemberCouponsApi(shop);
const { couponUsage: assigned } = await coupons.assignCoupon({
  ...ana,
  couponBookKey,
  couponAssignment: { systemUniqueKey: "assign-1", amount: 1 },
});
const use = (systemUniqueKey: string) =>
  coupons.useCoupon({ ...ana, couponBookKey, couponUse: { systemUniqueKey, code: "FLAT-1" } });
const { couponUsage: used } = await use("use-1");

// Lists: all pages, then filters.
const listed: string[] = [];
let pages = 0;
for (;;) {
  const { results } = await members.listMembers({ page: pages, limit: 2, order: "createdAt,asc" });
  if (results.length === 0) break;
  listed.push(...results.map((member) => member.loyaltyMemberId));
  pages += 1;
}
const found = await members.listMembers({ loyaltyMemberId: "cleo" });
const later = await members.listMembers({ fromCreatedAt: new Date("2099-01-01T00:00:00Z") });

console.log(
  JSON.stringify({
    amounts,
    decimal: String(balance),
    validFrom: campaign.validFrom?.toISOString().replace(".000Z", "Z"),
    patched: {
      publicLoyaltyMemberId: patched.publicLoyaltyMemberId,
      birthdate: day(patched.profile.birthdate),
      customAttributes: patched.customAttributes,
    },
    cleared: cleared.publicLoyaltyMemberId,
    book: {
      name: renamed.name,
      tags: renamed.tags,
      channels: renamed.channels,
      customAttributes: renamed.customAttributes,
    },
    coupons: [assigned.code, used.code],
    members: listed,
    pages,
    found: found.results.map((member) => member.loyaltyMemberId),
    later: later.total,
    problems: [
      await problemOf(members.createMember({ memberCreate: { loyaltyMemberId: " ana" } })),
      await problemOf(members.getMember({ loyaltyMemberId: "nobody" })),
      await problemOf(members.createMember({ memberCreate: ana })),
      await problemOf(use("use-2")),
    ],
  }),
);
