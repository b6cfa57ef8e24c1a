// What the client for TypeScript repeats, on responses that are made here.

import { IntegrationClient, Problem } from "loyalty-client";

const url = "http://loyalty.test/v2";
const json = (status, body, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });

function client(respond, options = { token: "t" }) {
  const calls = [];
  const fetch = async (address, init) => {
    calls.push({ address, ...init });
    return respond(calls.length, address, init);
  };
  return { calls, shop: new IntegrationClient(url, { fetch, ...options }) };
}

async function refusal(call) {
  try {
    await call;
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error("a refusal was expected");
}

const keyed = client((call) => {
  if (call === 1) return json(429, {}, { "Retry-After": "0" });
  if (call === 2) return json(503, {}, { "Retry-After": "0" });
  if (call === 3) throw new TypeError("fetch failed");
  return json(200, {});
});
await keyed.shop.useCoupon("ana", "book", { code: "A" });

const events = client(() => json(200, {}));
await events.shop.trackEvents({ events: [{ eventType: "a" }, { systemUniqueKey: "mine" }] });
const [first, second] = JSON.parse(events.calls[0].body).events;

const unkeyed = client((call) =>
  call === 1 ? json(429, {}, { "Retry-After": "0" }) : json(503, { type: "/problems/unavailable" }),
);
const away = await refusal(unkeyed.shop.createMember({ loyaltyMemberId: "ana" }));

const long = client(() => json(429, {}, { "Retry-After": "31" }));
const late = await refusal(long.shop.getMember("ana"));

const tokens = client(
  (call, address) => json(200, address.endsWith("/token") ? { access_token: "a", expires_in: 3600 } : {}),
  { clientId: "till", clientSecret: "secret" },
);
await Promise.all([tokens.shop.getMember("ana"), tokens.shop.listMemberCoupons("a/b", { couponBookTags: ["x", "y"] })]);

const slow = client(
  (_, __, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  { timeout: 20, maxRetries: 1 },
);
// Signals of timeouts do not keep Node running.
const running = setInterval(() => {}, 1000);
const timeout = await slow.shop.getMember("ana").catch((error) => error.name);
clearInterval(running);

console.log(
  JSON.stringify({
    keyedCalls: keyed.calls.length,
    differentBodies: new Set(keyed.calls.map((call) => call.body)).size,
    keyLength: JSON.parse(keyed.calls[0].body).systemUniqueKey.length,
    eventKeys: [typeof first.systemUniqueKey, second.systemUniqueKey],
    unkeyed: [unkeyed.calls.length, away.status, away.type],
    longWait: [long.calls.length, late.status],
    tokens: tokens.calls.slice(1).map((call) => call.headers.Authorization),
    url: tokens.calls.at(-1).address,
    timeout,
  }),
);
