// What a dry run found: what would change, and why each campaign and action applies or not.

import { html, nothing } from "./lit-html.js";
import { day, minute } from "./playground-member.js";

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const mark = (isTrue) => html`<span class=${isTrue ? "yes" : "no"} aria-hidden="true">${isTrue ? "✓" : "✗"}</span>`;
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** An expression with its value, and below it its parts with theirs. */
const traceTree = (node) => {
  const words = node.labelledExpression ?? node.expression;
  const value = node.error ? html`<span class="no">${node.error}</span>` : html`<samp>${textOf(node.value)}</samp>`;
  const decided = typeof node.value === "boolean" ? mark(node.value) : nothing;
  const line = html`${decided} <span title=${node.expression}>${words}</span>: ${value}`;
  if (!node.children?.length) return html`<li>${line}</li>`;
  return html`<li><details open><summary>${line}</summary><ul>${node.children.map(traceTree)}</ul></details></li>`;
};

/** An effect with its parameters; the key of a badge or a coupon book is followed by the name. */
const effectLine = (effect, names) => html`<li><b>${effect.effectId}</b>
  ${effect.params.filter(({ value }) => value !== null).map(({ id, value }) => html` ${id} <samp>${textOf(value)}</samp>${
    names[value] ? html` (${names[value]})` : nothing}`)}
  <span class=${["failed", "skipped"].includes(effect.status) ? "no" : "quiet"}>${effect.status}</span>
  ${effect.error ? html`<p class="no">${effect.error.detail ?? effect.error.title}</p>` : nothing}</li>`;

const actionPart = (action, effects, names) => html`<li><details ?open=${action.applied || action.trace.expression}>
  <summary>${mark(action.applied)} ${action.actionName ?? `Action ${action.actionId}`}
  <span class="reason">${action.applied ? "" : action.reason?.label ?? action.reason?.code}</span></summary>
  ${action.trace.expression ? html`<ul class="trace" aria-label="Rule">${traceTree(action.trace)}</ul>` : nothing}
  ${effects.length ? html`<ul class="effects" aria-label="Effects">${effects.map((effect) => effectLine(effect, names))}</ul>` : nothing}
</details></li>`;

const campaignPart = ({ code, reason, actions, applies }, effects, names) => {
  const effectsOf = (action) => effects.filter((effect) => effect.actionId === action.actionId);
  const head = html`${mark(applies)} <b>${code}</b> <span class="reason">${reason?.label ?? reason?.code}</span>`;
  if (!actions.length) return html`<li>${head}</li>`;
  return html`<li><details open><summary>${head}</summary>
    <ul>${actions.map((action) => actionPart(action, effectsOf(action), names))}</ul></details></li>`;
};

/** The campaigns of an explanation, each with its actions; one applies if an action of it does. These come first. */
const campaignsOf = (explain) => {
  const campaigns = new Map();
  for (const entry of explain) {
    const campaign = campaigns.get(entry.campaignKey)
      ?? { code: entry.campaignCode, reason: undefined, actions: [], applies: false };
    if (entry.actionId === null) {
      campaign.reason = entry.reason;
    } else {
      campaign.actions.push(entry);
      campaign.applies ||= entry.applied;
    }
    campaigns.set(entry.campaignKey, campaign);
  }
  return [...campaigns.values()].sort((one, other) => Number(other.applies) - Number(one.applies));
};

/** The campaigns that look at the event, and the number of those that look at other types of events; `names` by key. */
export const explanationTree = (result, names) => {
  const campaigns = campaignsOf(result.explain);
  const looking = campaigns.filter(({ reason }) => reason?.code !== "EVENT_TYPE");
  const others = campaigns.length - looking.length;
  return html`<ul class="campaigns">${looking.map((campaign) => campaignPart(campaign, result.effects, names))}</ul>
    ${looking.length ? nothing : html`<p>No campaign looks at events of this type.</p>`}
    ${others ? html`<p class="quiet">${plural(others, "campaign")} for other types of events.</p>` : nothing}`;
};

const changeRow = ({ subject, before, after }) => html`<tr><th scope="row">${subject}</th><td>${before}</td>
  <td>${after}</td></tr>`;

/** What the event would change for the member: rows of `{subject, before, after}`. */
export const changesOf = (wallets, result, earn, tierNames) => {
  const balances = (earn?.accounts ?? []).map((account) => {
    const wallet = wallets.find((other) => other.ledgerAccountKey === account.ledgerAccountKey);
    const before = wallet?.currentBalance ?? 0;
    const limits = account.discarded ? ` (${account.discarded} more were cut by limits)` : "";
    return { subject: wallet?.ledgerAccountName ?? "Points", before, after: `${before + account.available}${limits}` };
  });
  const tiers = (earn?.tiers ?? []).map(({ before, after }) => (
    { subject: "Tier", before: tierNames[before] ?? "none", after: tierNames[after] ?? "none" }));
  const missions = result.missions.map((mission) => ({
    subject: `Mission ${mission.name ?? mission.code ?? mission.missionKey}`,
    before: `${mission.currentCounter} of ${mission.goal}`,
    after: mission.achieved ? "achieved" : `${mission.newCounter} of ${mission.goal}`,
  }));
  return [...balances, ...tiers, ...missions];
};

export const changesTable = (changes) => (changes.length
  ? html`<table class="changes"><thead><tr><td></td><th scope="col">Before</th><th scope="col">After</th></tr></thead>
    <tbody>${changes.map(changeRow)}</tbody></table>`
  : html`<p>Balances, tiers and missions stay as they are.</p>`);

const availability = (availableAt) => {
  if (availableAt === undefined) return "";
  return availableAt === null ? "waits for an event" : `available ${minute(availableAt)}`;
};

const expiry = (expires) => {
  if (!expires) return "";
  return expires.at === null ? "never expires" : `expires ${day(expires.at)}${expires.isFirst ? " or later" : ""}`;
};

const entryRow = ({ account, member, amount, before, after, availableAt, expires }) => html`<tr><td>${account}</td>
  <td>${member}</td><td class="amount">${amount > 0 ? `+${amount}` : `−${-amount}`}</td>
  <td class="amount">${before ?? "unknown"}</td><td class="amount">${after ?? "unknown"}</td>
  <td>${[availability(availableAt), expiry(expires)].filter(Boolean).join(", ")}</td></tr>`;

/** The ledger entries, one by one; a table of its own below what changes in total. */
export const entriesTable = (entries) => (entries.length
  ? html`<table class="entries"><caption>Ledger entries</caption><thead><tr><th scope="col">Account</th>
    <th scope="col">Member</th><th scope="col">Amount</th><th scope="col">Before</th><th scope="col">After</th>
    <th scope="col">When</th></tr></thead><tbody>${entries.map(entryRow)}</tbody></table>`
  : nothing);

/** One sentence on the outcome. */
export const verdict = (result, isDryRun) => {
  if (result.error) return `Refused: ${result.error.detail ?? result.error.title}`;
  const applied = new Set(result.effects.map((effect) => effect.actionId)).size;
  const would = isDryRun ? "would be" : "were";
  return result.effects.length
    ? `${plural(result.effects.length, "effect")} of ${plural(applied, "action")} ${would} executed.`
    : `No effect ${isDryRun ? "would be" : "was"} executed.`;
};
