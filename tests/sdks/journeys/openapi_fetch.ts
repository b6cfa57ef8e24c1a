// The journey by openapi-fetch and the types that openapi-typescript makes; it prints what it saw as JSON.

import createClient, { type Client } from "openapi-fetch";
import type { components, paths as AdministrationPaths } from "./administration.js";
import type { components as IntegrationComponents, paths as IntegrationPaths } from "./integration.js";

type Problem = IntegrationComponents["schemas"]["Problem"];
type ActionEffect = components["schemas"]["ActionEffect"];

declare const process: { env: Record<string, string | undefined> };

function setting(name: string): string {
  const value = process.env[`JOURNEY_${name}`];
  if (value === undefined) throw new Error(`JOURNEY_${name} is missing`);
  return value;
}

// The data of an answer that has to be a success.
function expect<Data>(answer: { data?: Data; error?: unknown }): Data {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

// The parts of a problem by which programs decide.
function problemOf(answer: { error?: Problem }): object {
  if (answer.error === undefined) throw new Error("a problem was expected");
  const { status, type, errors } = answer.error;
  return { status, type, pointers: (errors ?? []).map((fault) => fault.pointer) };
}

function inUtc(moment: string | null): string | null {
  return moment === null ? null : new Date(moment).toISOString().replace(".000Z", "Z");
}

const baseUrl = setting("URL");
const organization = { organizationId: Number(setting("ORGANIZATION_ID")) };
const ledgerId = Number(setting("LEDGER_ID"));

const token = expect(
  await createClient<IntegrationPaths>({ baseUrl }).POST("/oauth/token", {
    body: {
      grant_type: "client_credentials",
      client_id: setting("CLIENT_ID"),
      client_secret: setting("CLIENT_SECRET"),
    },
    headers: { "Content-Type": "application/x-www-form-urlencoded" },
  }),
);
const shop: Client<IntegrationPaths> = createClient({
  baseUrl,
  headers: { Authorization: `Bearer ${token.access_token}` },
});
const office: Client<AdministrationPaths> = createClient({
  baseUrl,
  headers: { Authorization: `Bearer ${setting("ADMIN_TOKEN")}` },
});

// An account with six decimals, and a campaign that gives whole points and parts of gems.
const gems = expect(
  await office.POST("/organizations/{organizationId}/ledgers/{ledgerId}/accounts", {
    params: { path: { ...organization, ledgerId } },
    body: { name: "Gems", alias: "gems", active: true, isRevolving: true, chainSyncEnabled: false, decimals: 6 },
  }),
).ledgerAccount;
const campaign = expect(
  await office.POST("/organizations/{organizationId}/campaigns", {
    params: { path: organization },
    body: {
      code: "spend",
      name: "Spend",
      eventType: "member-purchase-order-created",
      validFrom: "2026-01-01T00:00:00-03:00",
    },
  }),
).campaign;
const pointsEffect: ActionEffect = {
  effectId: "mint-points",
  params: [{ id: "amount", expression: "floor(order.total)" }],
};
const gemsEffect: ActionEffect = {
  effectId: "mint-points",
  params: [
    { id: "amount", expression: "order.total" },
    { id: "ledgerAccountKey", value: gems.ledgerAccountKey },
  ],
};
expect(
  await office.POST("/organizations/{organizationId}/campaigns/{campaignId}/actions", {
    params: { path: { ...organization, campaignId: campaign.campaignId } },
    body: {
      rules: { expression: "order.total >= 1" },
      effects: { items: [pointsEffect, gemsEffect] },
      status: "running",
      priority: 1,
    },
  }),
);

// Members, an event of one of them, and what it gave.
for (const loyaltyMemberId of ["ben", "cleo", "dora", "eve"]) {
  expect(await shop.POST("/members", { body: { loyaltyMemberId } }));
}
expect(
  await shop.POST("/members", {
    body: {
      loyaltyMemberId: "ana",
      publicLoyaltyMemberId: "A-1",
      profile: { birthdate: "1992-02-29" },
      customAttributes: { drink: "flat white" },
    },
  }),
);
const [result] = expect(
  await shop.POST("/events/track", {
    body: {
      events: [
        {
          loyaltyMemberId: "ana",
          systemUniqueKey: "sale-1",
          eventType: "member-purchase-order-created",
          externalEventDate: "2026-03-02T08:15:00Z",
          payload: { order: { externalId: "order-1", total: 16777217.55 } },
        },
      ],
    },
  }),
).results;
const amounts = result?.effects.flatMap((effect) =>
  effect.params.filter((param) => param.id === "amount").map((param) => String(param.value)),
);

// A long decimal; numbers have 15 digits.
expect(
  await office.POST("/organizations/{organizationId}/members/by-loyalty-member-id/{loyaltyMemberId}/mint", {
    params: { path: { ...organization, loyaltyMemberId: "ben" } },
    body: { amount: Number(setting("DECIMAL")), ledgerAccountId: gems.ledgerAccountId },
  }),
);
const ben = expect(
  await shop.GET("/members/{loyaltyMemberId}", {
    params: { path: { loyaltyMemberId: "ben" }, query: { includeBalance: true } },
  }),
).loyaltyMember;
const balance = ben.ledgerBalances?.find((each) => each.ledgerAccountId === gems.ledgerAccountId)?.balance;

// Updates: one field changes, the others stay; null clears.
const path = { loyaltyMemberId: "ana" };
const patched = expect(
  await shop.PATCH("/members/{loyaltyMemberId}", { params: { path }, body: { publicLoyaltyMemberId: "A-2" } }),
).loyaltyMember;
const cleared = expect(
  await shop.PATCH("/members/{loyaltyMemberId}", { params: { path }, body: { publicLoyaltyMemberId: null } }),
).loyaltyMember;

// A book with codes of its own: one is assigned and used.
const { couponBookKey } = expect(
  await shop.POST("/coupon-books", {
    body: {
      publishingStatus: "published",
      type: "list",
      name: "Free flat white",
      tags: ["coffee"],
      channels: ["app"],
      customAttributes: { cup: "large" },
    },
  }),
).couponBook;
const book = { couponBookKey };
expect(
  await shop.POST("/coupon-books/{couponBookKey}/coupons", { params: { path: book }, body: { codes: ["FLAT-1"] } }),
);
const renamed = expect(
  await shop.PATCH("/coupon-books/{couponBookKey}", { params: { path: book }, body: { name: "Free espresso" } }),
).couponBook;
const assigned = expect(
  await shop.POST("/members/{loyaltyMemberId}/coupon-books/{couponBookKey}/assign", {
    params: { path: { ...path, ...book } },
    body: { systemUniqueKey: "assign-1", amount: 1 },
  }),
).couponUsage;
const use = (systemUniqueKey: string) =>
  shop.POST("/members/{loyaltyMemberId}/coupon-books/{couponBookKey}/use", {
    params: { path: { ...path, ...book } },
    body: { systemUniqueKey, code: "FLAT-1" },
  });
const used = expect(await use("use-1")).couponUsage;

// Lists: all pages, then filters.
const members: string[] = [];
let pages = 0;
for (;;) {
  const query = { page: pages, limit: 2, order: "createdAt,asc" };
  const { results } = expect(await shop.GET("/members", { params: { query } }));
  if (results.length === 0) break;
  members.push(...results.map((member) => member.loyaltyMemberId));
  pages += 1;
}
const found = expect(await shop.GET("/members", { params: { query: { loyaltyMemberId: "cleo" } } })).results;
const later = expect(await shop.GET("/members", { params: { query: { fromCreatedAt: "2099-01-01T00:00:00Z" } } }));

console.log(
  JSON.stringify({
    amounts,
    decimal: String(balance),
    validFrom: inUtc(campaign.validFrom),
    patched: {
      publicLoyaltyMemberId: patched.publicLoyaltyMemberId,
      birthdate: patched.profile.birthdate,
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
    members,
    pages,
    found: found.map((member) => member.loyaltyMemberId),
    later: later.total,
    problems: [
      problemOf(await shop.POST("/members", { body: { loyaltyMemberId: " ana" } })),
      problemOf(await shop.GET("/members/{loyaltyMemberId}", { params: { path: { loyaltyMemberId: "nobody" } } })),
      problemOf(await shop.POST("/members", { body: { loyaltyMemberId: "ana" } })),
      problemOf(await use("use-2")),
    ],
  }),
);
