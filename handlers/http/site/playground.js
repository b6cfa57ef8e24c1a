// The playground: try an event on a member by a dry run, see why, and look at the member.

import { copyBy } from "../docs/page.js";
import { html, nothing, render } from "./lit-html.js";
import { Api, cleanToken, orElse, Refused } from "./playground-api.js";
import { codeOf, keepLanguage, languageOf } from "./playground-code.js";
import { completed, placeAt, suggestions } from "./playground-editor.js";
import { changesOf, changesTable, entriesTable, explanationTree, verdict } from "./playground-explain.js";
import { campaignsWithoutAccount, entriesOf } from "./playground-ledger.js";
import { memberView } from "./playground-member.js";

const ORDER_CREATED = "member-purchase-order-created";
const PAGE = 25;
const REPORTS = [["members-over-time", "New members"], ["coupons-over-time", "Coupons assigned and used"]];

const root = document.getElementById("playground");
const schema = fetch(new URL("event-schema.json", import.meta.url)).then((response) => response.json());

const state = {
  tab: "try", language: languageOf(), fault: "", isBusy: false,
  api: null, organization: null, ledgerId: null, accounts: [], programs: [], tierNames: {}, rewardNames: {}, types: [], members: [], hasMembers: true,
  memberId: "", eventType: ORDER_CREATED, payload: "", moment: "",
  found: [], chosen: -1, schema: {},
  outcome: null, view: null,
};

const newKey = () => `playground-${crypto.getRandomValues(new Uint32Array(2)).join("")}`;

/** A payload to begin with, for each type of event. */
const examplePayload = (eventType) => {
  const externalId = newKey();
  if (eventType === "member-payment-confirmed") return { payment: { paymentId: externalId, total: 12.5 } };
  if (eventType === ORDER_CREATED) {
    const items = [{ productCode: "flat-white", categoryCode: "coffee", quantity: 1, total: 12.5 }];
    return { order: { externalId, total: 12.5, items } };
  }
  return eventType.startsWith("member-purchase-order") ? { order: { externalId: "the id of a stored order" } } : {};
};

const show = () => render(page(), root);
const set = (changes) => {
  Object.assign(state, changes);
  show();
};

/** Do something that takes a while; its refusal becomes the text above the page. */
const run = async (work) => {
  set({ isBusy: true, fault: "" });
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof SyntaxError)) throw error;
    state.fault = error instanceof SyntaxError ? `The payload is not JSON: ${error.message}` : error.message;
  } finally {
    set({ isBusy: false });
  }
};

const connect = (text) => run(async () => {
  const token = cleanToken(text);
  const api = new Api(token);
  sessionStorage.setItem("token", token);
  if (!api.organizationId) {
    throw new Refused({ title: "This is not a token of an organization. `loyalty token --admin` prints one." });
  }
  const [{ organization }, ledger, { loyaltyPrograms: programs }, badges, books, types, members] = await Promise.all([
    api.get(api.administration("")),
    defaultLedger(api),
    orElse(api.get(api.administration("/loyalty-programs")), { loyaltyPrograms: [] }),
    orElse(api.get("/badges", { limit: PAGE }), { results: [] }),
    orElse(api.get("/coupon-books", { limit: PAGE }), { results: [] }),
    orElse(api.get("/event-types"), { results: [] }),
    orElse(api.get("/members", { limit: PAGE }), { results: [], total: null }),
  ]);
  const tierNames = await orElse(tiersByKey(api, programs), {});
  const { payload, reported } = await schema;
  const isSame = state.api?.organizationId === api.organizationId;
  // Another organization has other members.
  Object.assign(state, isSame ? {} : { outcome: null, view: null }, {
    api, organization, programs, tierNames, ...ledger, rewardNames: namesOf(badges.results, books.results),
    members: members.results, hasMembers: members.total !== 0, schema: payload,
    types: types.results.map((type) => type.apiCode).filter((code) => !reported.includes(code)),
    memberId: (isSame && state.memberId) || (members.results[0]?.loyaltyMemberId ?? ""),
    payload: state.payload || JSON.stringify(examplePayload(state.eventType), null, 2),
  });
});

/** The names of the badges and coupon books that effects give, by key. */
const namesOf = (badges, books) => Object.fromEntries([
  ...badges.map((badge) => [badge.badgeKey, badge.name]), ...books.map((book) => [book.couponBookKey, book.name]),
]);

/** The id of the default ledger, and its accounts. */
const defaultLedger = async (api) => {
  const ledgers = await orElse(api.get(api.administration("/ledgers")), { results: [] });
  const ledgerId = ledgers.results.find((ledger) => ledger.isDefault)?.ledgerId ?? null;
  return { ledgerId, accounts: ledgerId === null ? [] : await orElse(accountsOf(api, ledgerId), []) };
};

/** All accounts of a ledger. */
const accountsOf = async (api, ledgerId) => {
  const accounts = [];
  for (let page = 0; ; page += 1) {
    const { results, totalCount } = await api.get(api.administration(`/ledgers/${ledgerId}/accounts`), { page, limit: PAGE });
    accounts.push(...results);
    if (!results.length || accounts.length >= totalCount) return accounts;
  }
};

/** The names of all tiers, by key. */
const tiersByKey = async (api, programs) => {
  const paths = programs.map(({ loyaltyProgramId }) => api.administration(`/loyalty-programs/${loyaltyProgramId}/tiers`));
  const pages = await Promise.all(paths.map((path) => api.get(path)));
  return Object.fromEntries(pages.flatMap((tiers) => tiers.results.map((tier) => [tier.loyaltyTierKey, tier.name])));
};

/** What a member holds on each account of the default ledger, with the lots. */
const walletsOf = async ({ ledgerWalletId }) => {
  const { api, ledgerId } = state;
  const path = api.administration(`/ledgers/${ledgerId}/wallets/${ledgerWalletId}`);
  return ledgerId === null ? [] : (await orElse(api.get(path, { include: "lots" }), { wallets: [] })).wallets;
};

/** The id of the main account of each campaign, by id: that of its program, else the default account. */
const mainAccountsOf = async (campaignIds) => {
  const { api, programs, accounts } = state;
  const defaultAccount = accounts.find((account) => account.isDefaultAccount);
  const find = async (campaignId) => {
    const { campaign } = await api.get(api.administration(`/campaigns/${campaignId}`));
    const program = programs.find(({ loyaltyProgramId, setAsDefault }) =>
      (campaign.loyaltyProgramId === null ? setAsDefault : loyaltyProgramId === campaign.loyaltyProgramId));
    return program?.mainLedgerAccountId ?? defaultAccount?.ledgerAccountId;
  };
  return Object.fromEntries(await Promise.all(campaignIds.map(async (id) => [id, await orElse(find(id), undefined)])));
};

/** The id of the chosen member; refuses if there is none. */
const chosenMember = () => {
  if (!state.memberId) throw new Refused({ title: "Choose a member." });
  return state.memberId;
};

/** The request of the present form. */
const request = (isDryRun) => {
  const event = { loyaltyMemberId: state.memberId, systemUniqueKey: newKey(), eventType: state.eventType };
  if (state.payload.trim()) event.payload = JSON.parse(state.payload);
  const moment = isDryRun && state.moment ? { now: new Date(state.moment).toISOString() } : {};
  return isDryRun ? { events: [event], executionMode: "dryRun", trace: true, ...moment } : { events: [event] };
};

const track = (isDryRun) => run(async () => {
  const { api } = state;
  const memberId = chosenMember();
  const body = request(isDryRun);
  const { payload, eventType } = body.events[0];
  const simulated = { loyaltyMemberId: memberId, event: { eventType, payload }, at: body.now, include: ["earn"] };
  const { loyaltyMember } = await api.get(`/members/${encodeURIComponent(memberId)}`);
  const wallets = await walletsOf(loyaltyMember);
  const { simulation } = await orElse(api.post("/simulations", simulated), { simulation: null });
  const { results: [result] } = await api.post("/events/track", body);
  const earn = simulation?.earn;
  const mainAccounts = await mainAccountsOf(campaignsWithoutAccount((earn ?? result).effects));
  const entries = entriesOf({ result, earn, wallets, mainAccounts, accounts: state.accounts, memberId });
  state.outcome = { body, isDryRun, result, entries, changes: changesOf(wallets, result, earn, state.tierNames) };
});

const look = () => run(async () => {
  const { api } = state;
  const path = `/members/${encodeURIComponent(chosenMember())}`;
  const { loyaltyMember: member } = await api.get(path);
  const [timeline, wallets, charts] = await Promise.all([
    api.get(`${path}/timeline`, { limit: PAGE }),
    walletsOf(member),
    Promise.all(REPORTS.map(async ([name, title]) => {
      const call = api.call("GET", api.administration(`/reports/${name}`), { accept: "image/svg+xml" });
      const drawing = await orElse(call, null);
      return drawing && { title, source: `data:image/svg+xml,${encodeURIComponent(drawing)}` };
    })),
  ]);
  state.view = {
    member, wallets, rows: timeline.results, cursor: timeline.nextCursor, charts: charts.filter(Boolean),
  };
});

const older = () => run(async () => {
  const { view } = state;
  const path = `/members/${encodeURIComponent(view.member.loyaltyMemberId)}/timeline`;
  const timeline = await state.api.get(path, { limit: PAGE, cursor: view.cursor });
  state.view = { ...view, rows: [...view.rows, ...timeline.results], cursor: timeline.nextCursor };
});

const edit = (field) => {
  const place = placeAt(field.value, field.selectionStart);
  set({ payload: field.value, found: suggestions(state.schema, place), chosen: -1 });
};

const choose = (field, name) => {
  const { typed } = placeAt(field.value, field.selectionStart);
  const done = completed(field.value, field.selectionStart, typed, name);
  set({ payload: done.text, found: [], chosen: -1 });
  field.focus();
  field.setSelectionRange(done.cursor, done.cursor);
};

const onKey = (event) => {
  const { found, chosen } = state;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    track(true);
  } else if (!found.length) {
    return;
  } else if (event.key === "Escape") {
    set({ found: [] });
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    set({ chosen: (chosen + step + found.length) % found.length });
  } else if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    choose(event.target, found[chosen].name);
  }
};

const tokenForm = () => html`<form class="token" @submit=${(event) => {
    event.preventDefault();
    connect(event.target.elements.token.value);
  }}>
  <label for="token">Token</label>
  <input id="token" name="token" type="password" autocomplete="off" placeholder="eyJ..."
    .value=${sessionStorage.getItem("token") ?? ""}>
  <button>Use</button>
  ${state.organization ? html`<span class="quiet">${state.organization.name}, ${state.organization.environment}${
    state.organization.testClock ? `; its test clock shows ${state.organization.testClock.now}` : ""}</span>` : nothing}
</form>`;

const memberField = () => html`<label for="member">Member</label>
  <input id="member" list="members" autocomplete="off" .value=${state.memberId}
    @change=${(event) => set({ memberId: event.target.value.trim() })}>
  <datalist id="members">${state.members.map((member) => html`<option value=${member.loyaltyMemberId}>
    ${member.profile?.name ?? ""}</option>`)}</datalist>
  ${state.hasMembers ? nothing : html`<small class="quiet">This organization has no members yet.
    <code>loyalty sample coffee-shop</code> creates an organization that has some.</small>`}`;

const payloadField = () => html`<label for="payload">Payload</label>
  <div class="editor">
  <textarea id="payload" rows="14" spellcheck="false" aria-autocomplete="list" aria-haspopup="listbox" aria-controls="fields"
    aria-describedby="payload-help"
    aria-activedescendant=${state.chosen >= 0 ? `field-${state.chosen}` : nothing}
    .value=${state.payload} @input=${(event) => edit(event.target)} @keydown=${onKey}
    @blur=${() => setTimeout(() => set({ found: [] }), 200)}></textarea>
  <ul id="fields" role="listbox" aria-label="Fields" ?hidden=${!state.found.length}>${state.found.map((field, number) => html`
    <li id="field-${number}" role="option" aria-selected=${String(number === state.chosen)}
      @mousedown=${(event) => {
        event.preventDefault();
        choose(document.getElementById("payload"), field.name);
      }}><b>${field.name}</b> <span class="quiet">${field.about}</span></li>`)}</ul>
  </div>
  <small id="payload-help" class="quiet">Type a quotation mark for the fields that fit. Ctrl+Enter runs it.</small>`;

const tryTab = () => html`<form class="event" @submit=${(event) => {
    event.preventDefault();
    track(true);
  }}>
  ${memberField()}
  <label for="type">Event</label>
  <select id="type" @change=${(event) => set({
    eventType: event.target.value, payload: JSON.stringify(examplePayload(event.target.value), null, 2),
  })}>${state.types.map((code) => html`<option ?selected=${code === state.eventType}>${code}</option>`)}</select>
  ${payloadField()}
  <label for="moment">Moment</label>
  <input id="moment" type="datetime-local" .value=${state.moment} @change=${(event) => set({ moment: event.target.value })}>
  <div class="buttons"><button class="main" ?disabled=${state.isBusy}>Dry run</button>
  ${state.organization.environment === "test"
    ? html`<button type="button" ?disabled=${state.isBusy} @click=${() => track(false)}>Track it</button>`
    : html`<small class="quiet">This organization is live: events are only tried here.</small>`}</div>
</form>
<div aria-live="polite">${state.outcome ? outcomeView(state.outcome) : nothing}</div>`;

const outcomeView = ({ result, isDryRun, changes, entries, body }) => html`
  <h2 id="outcome">${verdict(result, isDryRun)}</h2>
  ${result.error ? nothing : html`<h3>What changes</h3>${changesTable(changes)}${entriesTable(entries)}`}
  ${isDryRun && !result.error ? html`<h3>Why</h3>${explanationTree(result, state.rewardNames)}` : nothing}
  <h3>The request</h3>${requestView(codeOf({ base: state.api.base, name: "trackEvents", path: "/events/track", body }))}
  <details><summary>The response</summary><pre tabindex="0"><code>${JSON.stringify(result, null, 2)}</code></pre></details>`;

const requestView = (codes) => html`<div role="tablist" aria-label="Language">${Object.keys(codes).map((name) => tab(
    name, name === state.language, "code", () => set({ language: keepLanguage(name) })))}</div>
  <div class="code" role="tabpanel" id="code"><pre tabindex="0"><code>${codes[state.language]}</code></pre>
  <button type="button" class="copy" @click=${(event) => copyBy(event.target, codes[state.language])}>Copy</button></div>`;

/** The arrow keys select the previous and the next tab. */
const onTabKey = (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const tabs = [...event.target.parentElement.children];
  const next = tabs.at((tabs.indexOf(event.target) + step) % tabs.length);
  next.focus();
  next.click();
};

const tab = (name, isSelected, panel, select) => html`<button type="button" role="tab" aria-selected=${String(isSelected)}
  aria-controls=${panel} @click=${select} @keydown=${onTabKey}>${name}</button>`;

const memberTab = () => html`<form class="event" @submit=${(event) => {
    event.preventDefault();
    look();
  }}>${memberField()}<div class="buttons"><button class="main" ?disabled=${state.isBusy}>Show</button></div></form>
  <div aria-live="polite">${state.view ? memberView(state.view, older) : nothing}</div>`;

const page = () => html`${tokenForm()}
  <p class="no" role="alert">${state.fault}</p>
  ${state.organization ? html`<div role="tablist" aria-label="Playground">
    ${tab("Try an event", state.tab === "try", "panel", () => set({ tab: "try" }))}
    ${tab("A member", state.tab === "member", "panel", () => {
      set({ tab: "member" });
      if (state.memberId && !state.view) look();
    })}</div>
    <section role="tabpanel" id="panel" aria-busy=${String(state.isBusy)}>${state.tab === "try" ? tryTab() : memberTab()}
    </section>` : html`<p>The server prints a token behind <code>TOKEN=</code> when it starts.
    <code>loyalty playground</code> opens this page with one.</p>`}`;

/** Use the token of the address and remove it there, also when the address of an open page gets one. */
const connectByAddress = () => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return false;
  history.replaceState(null, "", location.pathname);
  connect(token);
  return true;
};

show();
addEventListener("hashchange", connectByAddress);
if (!connectByAddress() && sessionStorage.getItem("token")) connect(sessionStorage.getItem("token"));
